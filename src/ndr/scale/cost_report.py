"""The plan before a start: which runs, how many are done, and what the rest costs here."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ndr.scale.board import duration
from ndr.scale.cost import cost_of, makespan
from ndr.scale.engine import Engine
from ndr.scale.jobs import Job


def report_cost(jobs: Sequence[Job], out: Path, engine: Engine, console: Console) -> None:
    """One line for each recipe, and the sum. On a cluster only FLOP are known: its speed is not measured."""
    threads = None if engine.address else engine.threads_each
    table = Table(box=None, header_style="bold")
    for heading in ("recipe", "runs", "done", "iterations", "PFLOP each", "time each"):
        table.add_column(heading, justify="left" if heading == "recipe" else "right")
    costs = {}
    for name, group in by_recipe(jobs).items():
        recipe = group[0].recipe
        assert recipe is not None
        done = sum(job.status(out) != "waiting" for job in group)
        cost = costs[name] = cost_of(recipe, threads=threads)
        each = f"{cost.flop / 1e15:.3g}"
        table.add_row(name, str(len(group)), str(done), f"{recipe.iterations_in_all:,}", each, duration(cost.seconds))
    console.print(table)
    to_do = [costs[job.recipe.name] for job in jobs if job.recipe is not None and job.status(out) == "waiting"]
    text = f"{len(to_do)} runs to make, {sum(cost.flop for cost in to_do) / 1e15:.4g} PFLOP"
    if threads is not None and to_do:
        time = makespan([cost.seconds or 0.0 for cost in to_do], engine.width)
        text += f"; at most {duration(time)} here with {engine.width} workers"
        text += " (from a timed training step of each network on this machine, as busy as it is now)"
    console.print(text, highlight=False, soft_wrap=True)


def by_recipe(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        if job.recipe is not None:
            found.setdefault(job.recipe.name, []).append(job)
    return found
