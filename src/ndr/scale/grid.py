"""A grid: a list of runs, made or continued side by side."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ndr.errors import Refusal, nearest
from ndr.paper.results import FAILURE
from ndr.scale.board import Board
from ndr.scale.engine import Assignment, Engine
from ndr.scale.jobs import Job
from ndr.train.checkpoint import write_json
from ndr.train.folder import Holding


class GridSource:
    """Of some jobs those that are not done, in order; the summary is of all jobs of the grid."""

    def __init__(self, grid: Sequence[Job], jobs: Sequence[Job], out: Path, board: Board) -> None:
        self.grid, self.out, self.board = grid, out, board
        self.waiting = deque(job for job in jobs if job.status(out) == "waiting")
        for job in jobs:
            total = 0 if job.recipe is None else job.recipe.iterations_in_all
            board.add(job.name, job.status(out), total, job.reason(out))

    def next(self) -> Assignment | None:
        if not self.waiting:
            return None
        job = self.waiting.popleft()
        assert job.recipe is not None
        return Assignment(job.name, job.recipe.model_dump(mode="json"), job.seed, self.out / job.name)

    def started(self, name: str) -> None:
        self.board.started(name)

    def heard(self, name: str, row: dict[str, Any]) -> bool:
        self.board.heard(name, row)
        return False

    def ended(self, name: str, row: dict[str, Any]) -> None:
        self.board.ended(name, row)
        # What hinders it (a full disk) is said when it is written for the last time.
        with suppress(Refusal):
            self.write_summary()

    def tick(self) -> None:
        self.board.draw()

    def write_summary(self) -> None:
        """`grid.json`: how every run of the grid stands, read from the folders themselves."""
        rows = [{"run": job.name, "status": job.status(self.out), "reason": job.reason(self.out)} for job in self.grid]
        write_json(self.out / "grid.json", rows)


def run_grid(jobs: Sequence[Job], out: Path, engine: Engine, *, retry: Sequence[str] = ()) -> list[Job]:
    """Make or continue all runs; finished and failed ones are left alone, but for those to be retried.

    Returns the jobs that failed, now or before. With `retry` only the named ones run.
    """
    out.mkdir(parents=True, exist_ok=True)
    with Holding(out):
        grid, jobs = jobs, chosen(jobs, out, retry)
        with Board(engine.width) as board:
            source = GridSource(grid, jobs, out, board)
            if source.waiting:
                engine.run(source, out)
            source.write_summary()
    unfinished = [job for job in jobs if job.status(out) == "waiting"]
    if unfinished:
        raise Refusal(f"{len(unfinished)} runs are not done, such as {unfinished[0].name}; run the same command again")
    return [job for job in jobs if job.status(out) == "failed"]


def chosen(jobs: Sequence[Job], out: Path, retry: Sequence[str]) -> list[Job]:
    """All jobs; or those to be retried, whose failures are forgotten (`all`: every failed one)."""
    if not retry:
        return list(jobs)
    known = {job.name for job in jobs}
    for name in retry:
        if name not in known and name != "all":
            raise Refusal(f'the grid has no run "{name}"{nearest(name, known)}')
    again = [job for job in jobs if job.name in retry or ("all" in retry and job.status(out) == "failed")]
    for job in again:
        (out / job.name / FAILURE).unlink(missing_ok=True)
    return again
