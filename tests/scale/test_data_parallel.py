"""Two processes that share every batch end with the weights of one that has it whole."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ndr.train import load_recipe, train
from ndr.train.checkpoint import load_checkpoint

# The batch is odd: shares differ in size. Lengths are mixed: shares differ in padding.
SETTINGS = [
    "model.width=16",
    "model.steps=3",
    "model.test_steps=null",
    "model.update.hidden=32",
    "model.update.dropout=0.0",
    "model.update.gate_dropout=0.0",
    "model.attention.dropout=0.0",
    "batch=37",
    "sampling=uniform",
    "surroundings=null",
    "curriculum=null",
    "steps=null",
    "iterations=20",
    "evaluate_every=10",
    "stop_when_perfect=null",
]
LAUNCHERS = {
    "fabric": [sys.executable, "-m", "ndr"],
    "torchrun": [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--master-port={port}",
        "-m",
        "--",
        "ndr",
    ],
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process with the whole batch, and the data that all share."""
    root = tmp_path_factory.mktemp("parallel")
    recipe = load_recipe("ctl-forward-ndr-small", SETTINGS)
    (root / "recipe.json").write_text(recipe.model_dump_json())
    train(recipe, 3, root / "alone", data=root / "data", loggers=(), accelerator="cpu")
    return root


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found = load_checkpoint(folder / "last.safetensors")
    assert found is not None
    return {name: value for name, value in found[0].items() if name.startswith("network.")}


def run(alone: Path, launcher: str, out: str) -> subprocess.CompletedProcess[str]:
    words = [word.format(port=free_port()) for word in LAUNCHERS[launcher]]
    words += [
        "train",
        str(alone / "recipe.json"),
        "--seed",
        "3",
        "--out",
        str(alone / out),
        "--data",
        str(alone / "data"),
    ]
    words += ["--devices", "2", "--accelerator", "cpu", "--threads", "1", "--log", "none"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=False)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_processes_equal_one(alone: Path, launcher: str):
    done = run(alone, launcher, launcher)
    assert done.returncode == 0, done.stderr
    one, two = weights(alone / "alone"), weights(alone / launcher)
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-5, msg=name)
    first, second = (json.loads((alone / each / "result.json").read_text()) for each in ("alone", launcher))
    assert second["best"]["test"]["count"] == first["best"]["test"]["count"]
    assert len(second["curve"]) == len(first["curve"]) == 2
