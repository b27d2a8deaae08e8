"""The same command against a cluster that somebody has started."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray.tune")
RAY = "from ray.scripts.scripts import main; main()"
GRID = "import sys, tyro; from ndr.scale.commands import grid; tyro.cli(grid, args=sys.argv[1:])"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a cluster of one machine, and what a command needs to be let in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        **{"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)},
        **{"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"},
    }
    words = ["start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    with (tmp_path / "head.log").open("w") as log:
        head = subprocess.Popen(
            [sys.executable, "-c", RAY, *words], stdout=log, stderr=log, env=environment, start_new_session=True
        )
    deadline = time.monotonic() + 120
    while "block" not in (tmp_path / "head.log").read_text():
        assert head.poll() is None and time.monotonic() < deadline, (tmp_path / "head.log").read_text()
        time.sleep(0.1)
    yield f"127.0.0.1:{port}", environment
    os.killpg(head.pid, signal.SIGKILL)
    head.wait(timeout=60)


def test_a_running_cluster_takes_the_same_command(
    cluster: tuple[str, dict[str, str]], tmp_path: Path, tiny: dict[str, object], data: Path
):
    address, environment = cluster
    (tmp_path / "grid.json").write_text(
        json.dumps({"seeds": 2, "set": tiny, "runs": [{"recipe": "ctl-forward-ndr-small", "name": "run"}]})
    )
    words = [str(tmp_path / "grid.json"), "--out", str(tmp_path / "runs"), "--data", str(data), "--address", address]
    ended = subprocess.run(
        [sys.executable, "-c", GRID, *words], capture_output=True, text=True, env=environment, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert {row["run"]: row["status"] for row in json.loads((tmp_path / "runs" / "grid.json").read_text())} == {
        "run-seed0": "finished",
        "run-seed1": "finished",
    }
    assert not list((tmp_path / "runs" / ".ray").iterdir())
