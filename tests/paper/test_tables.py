"""Tables: the paper's rules of selection, spread and bold, in four formats."""

import html.parser
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from ndr.paper import FORMATS, TABLES, fill, open_table, read_results, render, results_page
from ndr.paper.results import Result
from ndr.paper.tables import Cell
from ndr.train.recipe import load_recipe


def as_results(key: str) -> list[Result]:
    """Runs whose numbers are the paper's means."""
    table = open_table(key)
    found: dict[str, dict] = {}
    for row in table.rows:
        for column, measure, number in zip(table.columns, row.measures, row.paper, strict=True):
            name = f"{column.task}-{row.model}-paper"
            recipe = load_recipe(name).model_dump(mode="json")
            record = found.setdefault(name, {"recipe": recipe, "best": {}, "last": {}, "milestones": {}})
            match measure:
                case "iid":
                    record["last"]["iid"] = {"accuracy": number[0]}
                case "test":
                    record["best"]["test"] = {"accuracy": number[0]}
                case "test-last":
                    record["last"]["test"] = {"accuracy": number[0]}
                case "milestone":
                    record["milestones"]["7"] = number[0]
    return [Result(name, 0, record, Path(name)) for name, record in found.items()]


@pytest.mark.parametrize("key", TABLES)
def test_a_perfect_reproduction_agrees_everywhere(key: str):
    filled = fill(open_table(key), "paper", as_results(key), seeds=1)
    for row in filled.rows:
        for cell in row.cells:
            assert cell.measure == "none" or (cell.agrees and cell.mean == cell.paper[0])


# The printed table, bold where the paper prints bold.
BOLD = {
    "lstm": "yes no yes no",
    "bilstm": "yes yes yes yes",
    "dnc": "yes no yes no",
    "transformer": "yes no no no",
    "rel": "yes yes no no",
    "rel-gate": "yes yes yes no",
    "absrel-gate": "yes yes yes yes",
    "geom": "no no no no",
    "ndr": "yes yes yes yes",
}


def test_the_bold_rule_gives_the_papers_bold():
    table = open_table("table1")
    filled = fill(table, "paper", as_results("table1"), seeds=1)
    for row, shown in zip(table.rows, filled.rows, strict=True):
        assert ["yes" if cell.bold else "no" for cell in shown.cells] == BOLD[row.model].split()


def test_bold_stays_in_its_columns():
    filled = fill(open_table("table6"), "paper", as_results("table6"), seeds=1)
    assert [cell.bold for cell in filled.rows[-1].cells] == [False, False, False, False, True, True]
    assert not any(
        cell.bold for row in fill(open_table("table5"), "paper", as_results("table5")).rows for cell in row.cells
    )


def test_means_and_sample_deviations_over_seeds(make, tmp_path: Path):
    values = [0.5, 0.75, 1.0]
    for seed, value in enumerate(values):
        make("ctl-forward-ndr-small", seed, iid=value / 2, test=value)
    filled = fill(open_table("table1"), "small", read_results(tmp_path / "runs"), models=("ndr",), seeds=3)
    iid, _, test, backward = filled.rows[0].cells
    assert test.mean == statistics.mean(values)
    assert test.deviation == pytest.approx(0.25)
    assert test.ours == "0.75 ± 0.25"
    assert iid.ours == "0.38 ± 0.12"
    assert backward.ours == "not run"
    assert test.theirs == "1.00 ± 0.00"
    assert not test.agrees


def test_the_layer_ablation_takes_the_last_network_and_act_its_milestone(make, tmp_path: Path):
    make("ctl-forward-ndr-8-steps-paper", 0, test=0.75)
    make("ctl-forward-rel-act-a-paper", 0, test=0.75, milestones={"30000": 0.25, "40000": 0.5})
    results = read_results(tmp_path / "runs")
    four = fill(open_table("table4"), "paper", results, models=("ndr-8-steps",)).rows[0]
    assert four.cells[2].mean == 0.625
    six = fill(open_table("table6"), "paper", results, models=("rel-act-a",)).rows[0]
    assert [cell.mean for cell in six.cells] == [1.0, None, 0.75, None, 0.25, None]


def test_missing_and_failed_seeds_are_shown(make, tmp_path: Path):
    make("ctl-forward-ndr-small", 0, test=1.0)
    make("ctl-forward-ndr-small", 1, failed="the loss is no longer a number by iteration 3")
    make("ctl-backward-ndr-small", 0, failed="out of memory")
    filled = fill(open_table("table1"), "small", read_results(tmp_path / "runs"), models=("ndr",))
    cells = filled.rows[0].cells
    assert cells[2].ours == "1.00 (n=1, 1 failed)"
    assert cells[3].ours == "1 failed"
    assert "ctl-forward-ndr-small-seed1 failed: the loss is no longer a number by iteration 3" in filled.notes
    page = results_page(tmp_path / "runs")
    assert "| ctl-backward-ndr-small-seed0 | failed: out of memory |" in page


def test_models_that_the_paper_does_not_have_follow_below(make, tmp_path: Path):
    make("ctl-forward-crisp-small", 0)
    # The page of depths has these.
    make("ctl-forward-crisp-without-thrift-small", 0)
    make("ctl-forward-ndr-timed-small", 0)
    filled = fill(open_table("table1"), "small", read_results(tmp_path / "runs"))
    assert sum("not in the paper" in row.name for row in filled.rows) == 1
    assert filled.rows[-1].name == "crisp (not in the paper)"
    assert filled.rows[-1].rule
    assert [cell.theirs for cell in filled.rows[-1].cells] == ["-"] * 4


def test_changed_settings_are_pointed_out(make, tmp_path: Path):
    make("ctl-forward-ndr-small", 0)
    (result,) = read_results(tmp_path / "runs")
    result.record["recipe"]["batch"] = 31
    filled = fill(open_table("table1"), "small", [result])
    assert any("batch is 31 there" in note for note in filled.notes)


@pytest.mark.parametrize(
    ("ours", "paper", "agrees"),
    [
        ([0.94], (0.99, 0.0), True),
        ([0.93], (0.99, 0.0), False),
        ([0.6, 0.7], (0.74, 0.1), True),
        ([0.1, 1.0], (1.0, 0.0), False),
        ([0.5, 0.7], (0.95, 0.1), False),
        ([], (0.95, 0.1), None),
        ([0.5], None, None),
    ],
)
def test_agreement(ours: list[float], paper: tuple[float, float] | None, agrees: bool | None):
    cell = Cell("test", paper, dict(enumerate(ours)), {}, 5, "name", True)
    assert cell.agrees is agrees


class Tags(html.parser.HTMLParser):
    """Fails on tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0

    def handle_starttag(self, tag: str, attributes: object) -> None:
        if tag != "br":
            self.open.append(tag)
        self.cells += tag == "td"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("key", TABLES)
@pytest.mark.parametrize("format", FORMATS)
def test_every_number_is_in_every_format(key: str, format: str):
    table = open_table(key)
    filled = fill(table, "paper", as_results(key), seeds=1)
    filled = replace(filled, notes=("50 % & more_of <it>",))
    text = render(filled, format, width=200)
    for row in table.rows:
        for number in row.paper:
            if number is not None:
                plus_minus = r"$\pm$" if format == "latex" else "±"
                assert f"{number[0]:.2f} {plus_minus} {number[1]:.2f}" in text
    assert table.title in text
    if format == "html":
        tags = Tags()
        tags.feed(text)
        assert tags.open == []
        assert tags.cells == len(table.rows) * len(table.columns)
    if format == "latex":
        assert text.count("{") == text.count("}")
        per_row = len(table.columns) + (1 if table.labels else 0)
        body = text.split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
        lines = [line for line in body.splitlines() if "&" in line]
        assert [line.count("&") for line in lines] == [per_row] * len(table.rows)
    if format == "markdown":
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) == 1
        assert len(rows) == len(table.rows) + 2


def test_the_page_says_what_agrees_and_what_does_not(make, tmp_path: Path):
    for seed in (0, 1):
        make("ctl-forward-ndr-small", seed, test=1.0)
        make("ctl-backward-lstm-paper", seed, iid=0.59, test=0.875)
    (tmp_path / "runs" / "summary.md").write_text("What agrees.\n")
    (tmp_path / "runs" / "notes.md").write_text("What was tried.\n")
    page = results_page(tmp_path / "runs")
    places = [page.index(part) for part in ("What agrees.", "Scale `small`", "Scale `paper`", "What was tried.")]
    assert places == sorted(places)
    assert "- LSTM, Longer Backward: 0.88 ± 0.00 (n=2), the paper has 0.22 ± 0.03" in page
    assert "| ctl-forward-ndr-small-seed1 | 1.0000 | 1.0000 | 1.0000 | 50 of 70 | 1.5 |" in page
    assert page.count("Table 1: ") == 4
