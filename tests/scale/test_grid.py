"""Grids on a real local Ray: killed in every way they finish, and failures do not spread."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from ndr.paper import read_results
from ndr.train import load_recipe, train
from ndr.train.checkpoint import load_checkpoint

pytest.importorskip("ray.tune")
GRID = "import sys, tyro; from ndr.scale.commands import grid; tyro.cli(grid, args=sys.argv[1:])"
SEEDS = 3


class Command:
    """`ndr grid` in a session of its own, its words in a file."""

    def __init__(self, file: Path, out: Path, data: Path, *more: str) -> None:
        self.log = out.parent / f"{time.monotonic_ns()}.log"
        words = [sys.executable, "-c", GRID, str(file), "--out", str(out), "--data", str(data), "--workers", "2", *more]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    @property
    def text(self) -> str:
        return self.log.read_text()

    def family(self) -> list[int]:
        """Its process and all that come from it."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(stat.parent.name)] = int(fields[1])
        found = [self.process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def kill(self, *pids: int) -> None:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(timeout=30)


@pytest.fixture
def launch() -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*words: object) -> Command:
        started.append(Command(*words))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.kill(*command.family())


def wait(what: Callable[[], object], command: Command, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert command.process.poll() is None, command.text
        assert time.monotonic() < deadline, command.text
        time.sleep(0.02)


def finished(out: Path) -> dict[str, int]:
    """Finished runs, and when their results were written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("*/result.json")}


def holder(folder: Path) -> int | None:
    """The process that works on a run."""
    lock = folder / "lock"
    match = re.match(r"process (\d+)", lock.read_text()) if lock.exists() else None
    return int(match[1]) if match and not (folder / "result.json").exists() else None


def progress(out: Path) -> int:
    """Evaluations of all runs together."""
    return sum(len(path.read_text().splitlines()) for path in out.glob("*/metrics.jsonl"))


def write_grid(file: Path, *entries: dict[str, object]) -> None:
    runs = [{"recipe": "ctl-forward-ndr-small", **entry} for entry in entries]
    file.write_text(json.dumps({"runs": runs}))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_and_failures_on_a_real_ray(
    tmp_path: Path, data: Path, tiny: dict[str, object], launch: Callable[..., Command]
):
    """One story, because every start of Ray takes seconds."""
    file, out = tmp_path / "grid.json", tmp_path / "runs"
    settings = {**tiny, "iterations": 160, "evaluate_every": 20, "stop_when_perfect": None}
    steady: dict[str, object] = {"name": "tiny", "seeds": SEEDS, "set": settings}
    write_grid(file, steady)

    # A worker is killed: the engine starts the run again, and it goes on from its checkpoint.
    first = launch(file, out, data)
    wait(lambda: progress(out) >= 3 and holder(out / "tiny-seed1"), first)
    victim = holder(out / "tiny-seed1")
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    wait(lambda: holder(out / "tiny-seed1") not in (None, victim) or "tiny-seed1" in finished(out), first)
    assert "its worker died; started again" in first.text

    # The driver alone: its workers are left behind for a moment, and the next command must not fall over them.
    wait(lambda: finished(out), first)
    first.kill(first.process.pid)
    done = finished(out)
    assert len(done) < SEEDS
    second = launch(file, out, data)
    seen = progress(out)
    wait(lambda: progress(out) >= seen + 2, second)

    # The whole command, with all of its processes at once.
    second.kill(*second.family())
    assert done.items() <= finished(out).items()
    done = finished(out)
    assert len(done) < SEEDS

    # The last command gets runs that cannot succeed besides.
    wild = {**tiny, "optimiser.learning_rate": 1e30, "optimiser.clip": None}
    failing: list[dict[str, object]] = [
        {"name": "nan", "set": wild},
        {"name": "huge", "set": {**tiny, "model.width": 1_000_000}},
        {"name": "bad", "set": {**tiny, "bach": 3}},
    ]
    write_grid(file, *failing, steady)
    third = launch(file, out, data)
    assert third.process.wait(timeout=400) == 1, third.text
    assert done.items() <= finished(out).items(), "a finished run was run again"
    assert set(finished(out)) == {f"tiny-seed{seed}" for seed in range(SEEDS)}
    rows = {row["run"]: row for row in json.loads((out / "grid.json").read_text())}
    assert "no longer a number" in rows["nan-seed0"]["reason"]
    assert "of memory and this machine has" in rows["huge-seed0"]["reason"]
    assert 'no key "bach" (did you mean "batch"?)' in rows["bad-seed0"]["reason"]
    for row in rows.values():
        assert (row["status"], row["reason"]) == ("finished", None) or row["reason"] in " ".join(third.text.split())

    # None is lost, none counted twice, and each evaluation was made once.
    whole = [result for result in read_results(out) if result.failure is None]
    assert [(result.recipe, result.seed) for result in whole] == [("tiny", seed) for seed in range(SEEDS)]
    for result in whole:
        assert [row["iteration"] for row in result.record["curve"]] == list(range(20, 161, 20))

    # The run whose worker was killed has the weights of one that nobody touched.
    torch.set_num_threads(1)
    recipe = load_recipe("ctl-forward-ndr-small", [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    train(recipe.model_copy(update={"name": "tiny"}), 1, tmp_path / "alone", data=data, loggers=())
    one = load_checkpoint(tmp_path / "alone" / "last.safetensors")
    other = load_checkpoint(out / "tiny-seed1" / "last.safetensors")
    assert one is not None
    assert other is not None
    assert all(torch.equal(one[0][name], other[0][name]) for name in one[0])

    # Once more: everything is finished or failed, so nothing starts, not even Ray.
    fourth = launch(file, out, data)
    assert fourth.process.wait(timeout=200) == 1, fourth.text
    assert "started" not in fourth.text
