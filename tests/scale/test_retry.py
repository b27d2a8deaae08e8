"""Grids with an engine that works in this process: what runs, what does not, and what is tried again."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from ndr.errors import Refusal
from ndr.paper import read_results
from ndr.scale import Job, run_grid
from ndr.scale.commands import finish
from ndr.scale.engine import RESTARTS, Assignment, Engine, Source, note_death
from ndr.scale.jobs import make_job
from ndr.scale.trial import reason_of, run_in_folder


class Here(Engine):
    """One run after another, without Ray; remembers what it was asked for."""

    asked: list[str] = []  # noqa: RUF012 - emptied by each test

    def run(self, source: Source, scratch: Path) -> None:
        while (found := source.next()) is not None:
            self.asked.append(found.name)
            source.started(found.name)
            own = {
                "recipe": found.recipe,
                "seed": found.seed,
                "out": str(found.folder),
                "data": self.data,
                "threads": 1,
            }
            source.ended(
                found.name, run_in_folder({**own, "threads": 1}, lambda row, name=found.name: source.heard(name, row))
            )


@pytest.fixture
def engine(data: Path) -> Here:
    Here.asked.clear()
    return Here(workers=1, data=data)


def jobs(tiny: dict[str, object], **wild: object) -> list[Job]:
    def changes(more: dict[str, Any]) -> tuple[str, ...]:
        return tuple(f"{key}={value}" for key, value in {**tiny, **more}.items())

    return [
        make_job("ctl-forward-ndr-small", 0, changes(wild), "wild"),
        make_job("ctl-forward-ndr-small", 0, changes({"bach": 3}), "bad"),
        make_job("ctl-forward-ndr-small", 0, changes({}), "good"),
    ]


def test_a_failed_run_stays_failed_until_it_is_retried_alone(tmp_path: Path, tiny: dict[str, object], engine: Here):
    listed = jobs(tiny, **{"optimiser.learning_rate": 1e30, "optimiser.clip": "null"})
    failed = run_grid(listed, tmp_path, engine)
    assert [job.name for job in failed] == ["wild-seed0", "bad-seed0"]
    assert engine.asked == ["wild-seed0", "good-seed0"]
    assert "no longer a number" in str(failed[0].reason(tmp_path))
    assert {result.name: result.failure is None for result in read_results(tmp_path)} == {
        "wild-seed0": False,
        "good-seed0": True,
    }

    # The same command again runs nothing.
    assert run_grid(listed, tmp_path, engine) == failed
    assert engine.asked == ["wild-seed0", "good-seed0"]

    # The last sentence alone says why, and what to do.
    sentence = "2 of 3 runs failed; wild-seed0: .* no longer a number.* --retry wild-seed0"
    with pytest.raises(Refusal, match=sentence):
        finish(listed, tmp_path, engine, ())

    # A retry runs that one alone; being deterministic, it fails as before.
    assert [job.name for job in run_grid(listed, tmp_path, engine, retry=["wild-seed0"])] == ["wild-seed0"]
    assert engine.asked == ["wild-seed0", "good-seed0", "wild-seed0"]
    summary = json.loads((tmp_path / "grid.json").read_text())
    assert [row["status"] for row in summary] == ["failed", "failed", "finished"]

    # With other settings it must be another run: the folder refuses to be mixed.
    mended = jobs(tiny)
    again = run_grid(mended, tmp_path, engine, retry=["wild-seed0"])
    assert "holds another run" in str(again[0].reason(tmp_path))


def test_a_run_that_failed_for_want_of_space_goes_on_when_retried(
    tmp_path: Path, tiny: dict[str, object], engine: Here, monkeypatch: pytest.MonkeyPatch
):
    listed = jobs(tiny)[2:]
    calls = 0
    import os

    real = os.fsync

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr("os.fsync", full)
    (failed,) = run_grid(listed, tmp_path, engine)
    assert "No space left on device" in str(failed.reason(tmp_path))
    assert run_grid(listed, tmp_path, engine, retry=["all"]) == []
    (result,) = read_results(tmp_path)
    assert result.failure is None


def test_a_worker_that_dies_too_often_leaves_a_reason(tmp_path: Path):
    assignment = Assignment("run", {"name": "x"}, 3, tmp_path / "run")
    reason = note_death(assignment, "Traceback\n  File\nActorDiedError: killed by signal 9")
    assert reason == f"its worker died {RESTARTS + 1} times, the last time with: ActorDiedError: killed by signal 9"
    (tmp_path / "run" / "recipe.json").write_text("{}")
    (result,) = read_results(tmp_path)
    assert (result.seed, result.failure) == (3, reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Refusal("the loss is no longer a number"), "the loss is no longer a number"),
        (MemoryError(), "out of memory: use a smaller batch or model (MemoryError)"),
        (RuntimeError("CUDA out of memory.\nTried to"), "out of memory: use a smaller batch or model (CUDA out of"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out of memory: "),
        (KeyError("name"), "KeyError: 'name'"),
    ],
)
def test_reasons_are_one_sentence(error: Exception, reason: str):
    assert reason_of(error).startswith(reason)
    assert "\n" not in reason_of(error)


def test_threads_are_shared_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ndr.scale.engine.cores", lambda: 8)
    assert (Engine().width, Engine().threads_each) == (8, 1)
    assert (Engine(workers=2).width, Engine(workers=2).threads_each) == (2, 4)
    assert (Engine(threads=4).width, Engine(threads=4).threads_each) == (2, 4)
    assert Engine(workers=16).threads_each == 1
    assert Engine(workers=2, address="auto").threads_each == 1


@pytest.mark.parametrize("asked", [{"workers": 0}, {"threads": 0}, {"workers": -1}, {"gpus": -1.0}, {"threads": 10**9}])
def test_impossible_numbers_of_workers_are_refused(asked: dict[str, int]):
    with pytest.raises(Refusal, match="lies between"):
        Engine(**asked)


def test_gpus_that_are_not_there_are_not_waited_for():
    with pytest.raises(Refusal, match=r"this machine has 0\.25"):
        Engine(gpus=0.5).tune(None, "", {"GPU": 0.25})


def test_an_address_without_a_cluster_is_refused_at_once(tmp_path: Path, tiny: dict[str, object]):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(Refusal, match=f"Ray could not be reached at {address}"):
        run_grid(jobs(tiny), tmp_path, Engine(address=address))
