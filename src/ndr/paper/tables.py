"""Our numbers in the places of the paper's: means and standard deviations over seeds, and what is bold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from ndr.models.settings import RouterSettings
from ndr.paper.experiments import (
    TABLES,
    TIMED,
    WITHOUT,
    Column,
    Measure,
    Number,
    PaperTable,
    Row,
    open_table,
    recipe_name,
)
from ndr.paper.results import Result
from ndr.train.recipe import load_recipe, names

# Two numbers agree if they are this close, or closer than their standard deviations together.
CLOSE = 0.05


@dataclass(frozen=True)
class Cell:
    """One number of a table, ours and the paper's."""

    measure: Measure
    paper: Number | None
    values: dict[int, float]
    """by seed"""
    failed: dict[int, str]
    """reason by seed"""
    wanted: int
    recipe: str
    shipped: bool
    bold: bool = False

    @property
    def mean(self) -> float | None:
        return fmean(self.values.values()) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation (n - 1); none for a single seed."""
        return stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def agrees(self) -> bool | None:
        """Whether ours is the paper's number, within 0.05 or the paper's own spread; None if one is missing.

        Our spread is no excuse: seeds that differ wildly would agree with everything.
        """
        if self.mean is None or self.paper is None:
            return None
        return abs(self.mean - self.paper[0]) <= max(CLOSE, self.paper[1]) + 1e-9

    @property
    def ours(self) -> str:
        """As the paper prints it, with the number of seeds when it is not the one asked for, and failures."""
        if self.measure == "none":
            return "-"
        if self.mean is None:
            if self.failed:
                return f"{len(self.failed)} failed"
            return "not run" if self.shipped else "no recipe"
        text = f"{self.mean:.2f}" if self.deviation is None else f"{self.mean:.2f} ± {self.deviation:.2f}"
        remarks = []
        if len(self.values) != self.wanted:
            remarks.append(f"n={len(self.values)}")
        if self.failed:
            remarks.append(f"{len(self.failed)} failed")
        return f"{text} ({', '.join(remarks)})" if remarks else text

    @property
    def theirs(self) -> str:
        return "-" if self.paper is None else f"{self.paper[0]:.2f} ± {self.paper[1]:.2f}"


@dataclass(frozen=True)
class FilledRow:
    name: str
    label: str
    rule: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Filled:
    """A table with our numbers in it."""

    table: PaperTable
    scale: str
    rows: tuple[FilledRow, ...]
    notes: tuple[str, ...]

    @property
    def empty(self) -> bool:
        return not any(cell.values or cell.failed for row in self.rows for cell in row.cells)


def fill(
    table: PaperTable,
    scale: str,
    results: Sequence[Result],
    *,
    models: tuple[str, ...] = (),
    seeds: int | None = None,
) -> Filled:
    """Put results into a table. Runs of its tasks that the paper has no row for follow below, if all rows are shown."""
    by_recipe: dict[str, list[Result]] = {}
    for result in results:
        by_recipe.setdefault(result.recipe, []).append(result)
    wanted = table.seeds if seeds is None else seeds
    rows = [fill_row(table, row, scale, by_recipe, wanted) for row in table.choose(models)]
    if not models and table.key in ("table1", "table2", "table3"):
        rows += [fill_row(table, row, scale, by_recipe, wanted) for row in other_rows(table, scale, by_recipe)]
    rows = [embolden(table, row, rows) for row in rows]
    return Filled(table, scale, tuple(rows), tuple(notes_of(table, rows, by_recipe)))


def fill_row(table: PaperTable, row: Row, scale: str, by_recipe: dict[str, list[Result]], wanted: int) -> FilledRow:
    known = set(names())
    cells = []
    for column, measure, paper in zip(table.columns, row.measures, row.paper, strict=True):
        recipe = recipe_name(column.task, row.model, scale)
        found = by_recipe.get(recipe, [])
        taken = {result.seed: value for result in found if (value := measured(result, measure)) is not None}
        failed = {result.seed: result.failure for result in found if result.failure is not None}
        cells.append(Cell(measure, paper, taken, failed, wanted, recipe, recipe in known))
    return FilledRow(steps_name(row, table, scale), row.label, row.rule, tuple(cells))


def measured(result: Result, measure: Measure) -> float | None:
    """The number that a run gives for a column (the paper's rules)."""
    match measure:
        case "iid":
            return result.accuracy("last", "iid")
        case "test":
            return result.accuracy("best", "test")
        case "test-last":
            return result.accuracy("last", "test")
        case "milestone":
            return result.milestone
        case "none":
            return None


def steps_name(row: Row, table: PaperTable, scale: str) -> str:
    """Rows that are named by their steps say those of this scale: `8`, or `10 → 14` with more of them at test."""
    recipe = recipe_name(table.columns[0].task, row.model, scale)
    if table.models != "steps" or scale == "paper" or recipe not in names():
        return row.name
    model = load_recipe(recipe).model
    assert isinstance(model, RouterSettings)
    more = model.test_steps not in (None, model.steps)
    return f"{model.steps} → {model.test_steps}" if more else str(model.steps)


def other_rows(table: PaperTable, scale: str, by_recipe: dict[str, list[Result]]) -> list[Row]:
    """Models that were run on the table's tasks although no table of the paper has them."""
    in_paper = {row.model for key in TABLES for row in open_table(key).rows}
    found = {
        recipe.removeprefix(f"{task}-").removesuffix(f"-{scale}")
        for recipe in by_recipe
        for task in table.tasks
        if recipe.startswith(f"{task}-") and recipe.endswith(f"-{scale}")
    }
    found = {model for model in found if WITHOUT not in model and not model.endswith(TIMED)}
    measures = tuple(column.measure for column in table.columns)
    nothing = (None,) * len(table.columns)
    return [
        Row(f"{model} (not in the paper)", model, measures, nothing, rule=place == 0)
        for place, model in enumerate(sorted(found - in_paper))
    ]


def embolden(table: PaperTable, row: FilledRow, rows: Sequence[FilledRow]) -> FilledRow:
    cells = []
    for place, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True)):
        best = max((other.cells[place].mean or 0.0 for other in rows), default=0.0)
        bold = has_bold(table, column) and cell.mean is not None and within(cell.mean, best, table.bold)
        cells.append(replace(cell, bold=bold))
    return replace(row, cells=tuple(cells))


def has_bold(table: PaperTable, column: Column) -> bool:
    return table.bold_groups is None or column.group in table.bold_groups


def within(mean: float, best: float, margin: float) -> bool:
    return best - mean <= margin or math.isclose(best - mean, margin)


def notes_of(table: PaperTable, rows: Sequence[FilledRow], by_recipe: dict[str, list[Result]]) -> list[str]:
    """What a reader must know beside the numbers: failures, and settings that have changed since."""
    notes: dict[str, None] = {}
    used = dict.fromkeys(cell.recipe for row in rows for cell in row.cells)
    for recipe in used:
        for result in by_recipe.get(recipe, []):
            if result.failure is not None:
                notes[f"{result.name} failed: {result.failure}"] = None
                continue
            drift = result.drift()
            if drift is not None:
                notes[f"{recipe}: made with other settings than the shipped recipe has now ({drift})"] = None
    for cell in (cell for row in rows for cell in row.cells):
        short = [result for result in by_recipe.get(cell.recipe, []) if result.failure is None]
        if cell.measure == "test-last" and short and not cell.values:
            notes[f"{cell.recipe}: its results do not hold the test accuracy at the end of training"] = None
        if cell.measure == "milestone" and short and not cell.values:
            notes[f"{cell.recipe}: its recipe has no milestone, so there is no early number"] = None
    return list(notes)
