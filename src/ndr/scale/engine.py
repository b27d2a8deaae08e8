"""Ray Tune: runs as trials on this machine, or on the cluster at an address.

Ray only decides what runs where and starts a killed trial again. What is done and what is not stands in the folders of
the runs, so nothing of Ray's own state is kept.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from ndr.errors import Refusal, require
from ndr.scale.jobs import write_failure

# How often a trial whose worker died is started again.
RESTARTS = 3
# Seconds: a hundred years, and still less than a thread can wait.
NEVER = 3 * 10**9
# Of workers, of threads or GPUs of each.
MOST = 1_024


class Source(Protocol):
    """Where trials come from, and who wants to know about them."""

    def next(self) -> "Assignment | None":
        """The next run, or None when there will be no more."""

    def started(self, name: str) -> None: ...

    def heard(self, name: str, row: dict[str, Any]) -> bool:
        """An evaluation; True stops the run for good."""

    def ended(self, name: str, row: dict[str, Any]) -> None:
        """The last word of a run: its accuracies, or `failed` with a reason. Stopped runs do not say any."""

    def tick(self) -> None:
        """Called all the time."""


@dataclass(frozen=True)
class Assignment:
    """One run for one worker."""

    name: str
    recipe: dict[str, Any]
    seed: int
    folder: Path


@dataclass(frozen=True)
class Engine:
    """How many workers, and where. Trials have one thread each unless cores are left over."""

    workers: int | None = None
    threads: int | None = None
    gpus: float | None = None
    address: str | None = None
    data: Path | None = None

    def __post_init__(self) -> None:
        for name, asked, least in (("workers", self.workers, 1), ("threads", self.threads, 1), ("gpus", self.gpus, 0)):
            if asked is not None and not least <= asked <= MOST:
                raise Refusal(f"--{name} lies between {least} and {MOST:,}, not {asked}")

    @property
    def width(self) -> int:
        """Runs at the same time on this machine."""
        return self.workers or max(1, cores() // (self.threads or 1))

    @property
    def threads_each(self) -> int:
        if self.threads is not None:
            return self.threads
        return 1 if self.address else max(1, cores() // self.width)

    def run(self, source: Source, out: Path) -> None:
        """Work through the source. Returns when nothing is left; Ctrl-C leaves the rest for the next time.

        Ray's own notes go where every machine of a cluster can write, or else out of the way of a full disk.
        """
        shared = out / ".ray" if self.address else None
        if shared is not None:
            shared.mkdir(parents=True, exist_ok=True)
        with self.started() as available, TemporaryDirectory(prefix="ndr-", dir=shared) as scratch:
            self.tune(source, scratch, available)

    @contextmanager
    def started(self) -> Iterator[dict[str, float]]:
        """Ray, on this machine or connected to a cluster; yields its resources."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        # Our folders hold the results and we decide what Ctrl-C means.
        os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = require("ray", "search")
        require("ray.tune", "search")
        shared = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if self.address is not None:
                check_reachable(self.address)
                ray.init(address=self.address, **shared)
            else:
                ray.init(
                    # Never a cluster that happens to be there.
                    address="local",
                    num_cpus=self.width * self.threads_each,
                    include_dashboard=False,
                    object_store_memory=100 * 2**20,
                    **shared,
                )
        except (OSError, ValueError, RuntimeError) as error:
            place = f"at {self.address}" if self.address else "on this machine"
            raise Refusal(f"Ray could not be reached {place}: {' '.join(str(error).split())[:300]}") from error
        logging.getLogger("ray.tune").setLevel(logging.ERROR)
        try:
            yield ray.cluster_resources()
        finally:
            ray.shutdown()

    def tune(self, source: Source, scratch: str, available: dict[str, float]) -> None:
        from ray import tune

        from ndr.scale.adapter import Bell, Ears, Here, Questions
        from ndr.scale.trial import trial

        there = available.get("GPU", 0.0)
        gpus = self.gpus if self.gpus is not None else min(1.0, there)
        if self.address is None and gpus > there:
            # A cluster may still grow; here Ray would wait for ever.
            raise Refusal(
                f"each run is to have {gpus:g} GPUs and this machine has {there:g}; ask for fewer with --gpus"
            )
        resources = {"cpu": self.threads_each, **({"gpu": gpus} if gpus else {})}
        shared = {"threads": self.threads_each, "data": None if self.data is None else str(self.data.resolve())}
        workers = self.workers if self.address else self.width
        here = Here(source)
        tuner = tune.Tuner(
            tune.with_resources(trial, resources),
            tune_config=tune.TuneConfig(
                search_alg=Questions(here, shared),
                num_samples=-1,
                max_concurrent_trials=workers,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(Path(scratch).resolve()),
                failure_config=tune.FailureConfig(max_failures=RESTARTS),
                # By the wall clock: one that jumps must not make Ray take its own notes for late.
                sync_config=tune.SyncConfig(sync_timeout=NEVER),
                callbacks=[Bell(here)],
                stop=Ears(here),
                verbose=0,
            ),
        )
        try:
            tuner.fit()
        except KeyboardInterrupt:
            raise Refusal("stopped; the same command goes on from there") from None
        except (TimeoutError, tune.TuneError) as error:
            reason = " ".join(str(error).split())[:300]
            raise Refusal(f"Ray stopped ({reason}); the same command goes on from there") from error


def check_reachable(address: str) -> None:
    """Ray itself keeps trying for minutes when nobody is there."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=10):
            pass


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def note_death(assignment: Assignment, error: str) -> str:
    """A worker died more often than it was started again: say so beside the run."""
    last = error.strip().splitlines()[-1] if error.strip() else "no message"
    reason = f"its worker died {RESTARTS + 1} times, the last time with: {last[:300]}"
    write_failure(assignment.folder, assignment.recipe, assignment.seed, reason)
    return reason
