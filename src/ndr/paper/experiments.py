"""Which runs stand behind each table of the paper."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ndr.errors import Refusal, nearest
from ndr.train.recipe import names

TABLES = ("table1", "table2", "table3", "table4", "table5", "table6")
MOST_SEEDS = 100
# In the names of rows that belong to the page of depths: a part left out, and the time until problems are solved.
WITHOUT, TIMED = "-without-", "-timed"
DATA = Path(__file__).with_name("tables.toml")

Measure = Literal["iid", "test", "test-last", "milestone", "none"]
Number = tuple[float, float]


@dataclass(frozen=True)
class Column:
    """One column: what is measured, on which task."""

    group: str
    name: str
    task: str
    measure: Measure
    elsewhere: str | None = None

    def heading(self, scale: str) -> str:
        return self.name if scale == "paper" or self.elsewhere is None else self.elsewhere


@dataclass(frozen=True)
class Row:
    """One row: a model, and the paper's mean and standard deviation for each column."""

    name: str
    model: str
    measures: tuple[Measure, ...]
    paper: tuple[Number | None, ...]
    label: str = ""
    rule: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper."""

    key: str
    title: str
    models: str
    labels: str | None
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    seeds: int
    bold: float
    bold_groups: tuple[str, ...] | None

    @property
    def heading(self) -> str:
        return f"Table {self.key.removeprefix('table')}: {self.title}"

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column.task for column in self.columns))

    def choose(self, models: tuple[str, ...]) -> tuple[Row, ...]:
        """The rows of these models, or all."""
        known = {row.model for row in self.rows}
        for model in models:
            if model not in known:
                raise Refusal(
                    f'{self.key} has no row "{model}"{nearest(model, known)}; its rows are {", ".join(sorted(known))}'
                )
        return tuple(row for row in self.rows if not models or row.model in models)


@dataclass(frozen=True, order=True)
class Run:
    """One recipe with one seed; its name is that of its folder and of its result."""

    recipe: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.recipe}-seed{self.seed}"


@dataclass(frozen=True)
class Plan:
    """The runs a table needs, each once, and the recipes it would need but that this scale does not have."""

    runs: tuple[Run, ...]
    lacking: tuple[str, ...]


@cache
def open_table(key: str) -> PaperTable:
    """A table by its name, `table1` to `table6`."""
    if key not in TABLES:
        raise Refusal(f'there is no table "{key}"{nearest(key, TABLES)}; there are {", ".join(TABLES)}')
    data: dict[str, Any] = tomllib.loads(DATA.read_text())[key]
    columns = tuple(Column(**column) for column in data["columns"])
    groups = data.get("bold_groups")
    return PaperTable(
        key,
        data["title"],
        data["models"],
        data.get("labels"),
        columns,
        tuple(read_row(row, columns) for row in data["rows"]),
        data["seeds"],
        data.get("bold", 0.0),
        None if groups is None else tuple(groups),
    )


def read_row(data: dict[str, Any], columns: tuple[Column, ...]) -> Row:
    measures = tuple(data.get("measures", [column.measure for column in columns]))
    paper = tuple((number[0], number[1]) if number else None for number in data["paper"])
    return Row(data["name"], data["model"], measures, paper, data.get("label", ""), data.get("rule", False))


def recipe_name(task: str, model: str, scale: str) -> str:
    return f"{task}-{model}-{scale}"


def check_seeds(seeds: int | None) -> None:
    """Whether so many seeds can be meant."""
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise Refusal(f"the number of seeds lies between 1 and {MOST_SEEDS}, not {seeds}; a grid file can list more")


def plan(
    keys: tuple[str, ...], scale: str, models: tuple[str, ...] = (), seeds: int | None = None, tasks: str | None = None
) -> Plan:
    """Every run of these tables at a scale; a run that several tables share is there once."""
    check_seeds(seeds)
    known = set(names())
    runs: dict[Run, None] = {}
    lacking: dict[str, None] = {}
    for key in keys:
        table = open_table(key)
        for seed in range(table.seeds if seeds is None else seeds):
            for row in table.choose(models):
                for task in table.tasks:
                    name = recipe_name(task, row.model, scale)
                    if tasks is not None and not task.endswith(tasks):
                        continue
                    if name in known:
                        runs[Run(name, seed)] = None
                    else:
                        lacking[name] = None
    return Plan(tuple(runs), tuple(lacking))
