"""Many runs as a list: from tables of the paper, recipes, or a file of recipes × seeds × settings."""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from ndr.errors import Refusal, complaint, nearest
from ndr.models.settings import Settings
from ndr.paper import TABLES, plan
from ndr.paper.experiments import check_seeds
from ndr.paper.results import FAILURE
from ndr.train.checkpoint import write_json
from ndr.train.folder import RunFolder
from ndr.train.recipe import Recipe, load_recipe, names, read_data
from ndr.whole import read_text

Status = Literal["waiting", "finished", "failed"]
# More than anybody waits for; a file cannot ask for so many that only listing them fills the memory.
MOST_RUNS = 10_000


@dataclass(frozen=True)
class Job:
    """One run to be made in the folder `name`; or, with a problem, one that cannot be."""

    name: str
    recipe: Recipe | None
    seed: int
    problem: str | None = None

    def status(self, out: Path) -> Status:
        """What the folder says: only finished runs have a result."""
        if RunFolder(out / self.name).result() is not None:
            return "finished"
        failed = self.problem is not None or (out / self.name / FAILURE).exists()
        return "failed" if failed else "waiting"

    def reason(self, out: Path) -> str | None:
        """Why it failed."""
        if self.problem is not None:
            return self.problem
        try:
            return str(json.loads(read_text(out / self.name / FAILURE))["failed"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "unknown: its failure.json is damaged"


def write_failure(folder: Path, recipe: dict[str, Any], seed: int, reason: str) -> None:
    """Beside the run, in the form in which results are collected; a disk that takes nothing leaves the run waiting."""
    with suppress(OSError, Refusal):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / FAILURE, {"recipe": recipe, "seed": seed, "failed": reason})


class Entry(Settings):
    """One recipe of a grid file."""

    recipe: str
    name: str | None = None
    """of the runs; the recipe's and what was changed when left out"""
    seeds: int | list[int] | None = None
    set: dict[str, Any] = Field(default_factory=dict)
    """settings of all its runs"""
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    """settings of which every combination is run"""


class GridFile(Settings):
    """A file of runs."""

    seeds: int | list[int] = 1
    """how many (0, 1, …), or which"""
    set: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    runs: list[Entry]


def read_jobs(
    what: Iterable[str], scale: str, rows: tuple[str, ...] = (), seeds: int | None = None, changes: tuple[str, ...] = ()
) -> list[Job]:
    """Every run of these tables, recipes and files, each once. A bad recipe is a job with a problem."""
    check_seeds(seeds)
    found: dict[str, Job] = {}
    for name in what:
        for job in jobs_of(name, scale, rows, seeds, changes):
            if job.name in found and found[job.name] != job:
                raise Refusal(f'two different runs are called "{job.name}": give one of them a name of its own')
            found[job.name] = job
    return list(found.values())


def jobs_of(what: str, scale: str, rows: tuple[str, ...], seeds: int | None, changes: tuple[str, ...]) -> list[Job]:
    if what in TABLES:
        runs = plan((what,), scale, rows, seeds).runs
        return [make_job(run.recipe, run.seed, changes) for run in runs]
    if what in names():
        return [make_job(what, seed, changes) for seed in range(1 if seeds is None else seeds)]
    path = Path(what)
    if not path.is_file():
        hint = nearest(what, [*TABLES, *names()])
        raise Refusal(f'there is no table, recipe or file "{what}"{hint}')
    return jobs_of_file(path, seeds, changes)


def jobs_of_file(path: Path, seeds: int | None, changes: tuple[str, ...]) -> list[Job]:
    try:
        file = GridFile.model_validate(read_data(path))
    except ValidationError as error:
        raise Refusal(f"{path}: {complaint(error)}") from error
    jobs: list[Job] = []
    for entry in file.runs:
        grid = {**file.grid, **entry.grid}
        fixed = {**file.set, **entry.set}
        wanted = seeds if seeds is not None else file.seeds if entry.seeds is None else entry.seeds
        count = (max(wanted, 0) if isinstance(wanted, int) else len(wanted)) * prod(map(len, grid.values()))
        if len(jobs) + count > MOST_RUNS:
            raise Refusal(f"{path} asks for more than {MOST_RUNS:,} runs; divide it into several files")
        for values in product(*grid.values()):
            varied = dict(zip(grid, values, strict=True))
            overrides = [f"{key}={json.dumps(value)}" for key, value in {**fixed, **varied}.items()]
            named = name_of(entry, varied)
            for seed in numbers(wanted):
                jobs.append(make_job(entry.recipe, seed, (*overrides, *changes), named))
    return jobs


def name_of(entry: Entry, varied: dict[str, Any]) -> str | None:
    """What tells the runs of an entry apart; nothing if it is the bare recipe."""
    if entry.name is None and not varied and not entry.set:
        return None
    base = entry.name or Path(entry.recipe).stem
    fixed = {} if entry.name is not None else entry.set
    words = [f"{key.rpartition('.')[2]}={value}" for key, value in {**fixed, **varied}.items()]
    return re.sub(r"[^\w.=+-]+", "_", "-".join([base, *words]))


def numbers(seeds: int | list[int]) -> list[int]:
    return list(range(seeds)) if isinstance(seeds, int) else seeds


def make_job(recipe: str, seed: int, changes: tuple[str, ...], name: str | None = None) -> Job:
    """Runs with changes bear another name than the bare recipe, so that their results are never taken for its own."""
    try:
        loaded = load_recipe(recipe, list(changes))
    except Refusal as refusal:
        return Job(f"{name or Path(recipe).stem}-seed{seed}", None, seed, str(refusal))
    if name is None and changes and recipe in names():
        words = "-".join(
            f"{key.rpartition('.')[2]}={value}" for key, _, value in (each.partition("=") for each in changes)
        )
        name = re.sub(r"[^\w.=+-]+", "_", f"{recipe}-{words}")
    loaded = loaded if name is None else loaded.model_copy(update={"name": name})
    return Job(f"{loaded.name}-seed{seed}", loaded, seed)
