"""The tables as data: complete, consistent with the shipped recipes, and planned without repetition."""

import pytest

from ndr.errors import Refusal
from ndr.paper import TABLES, open_table, plan
from ndr.paper.experiments import recipe_name
from ndr.train.recipe import names

SHAPES = [("table1", 9, 4), ("table2", 6, 3), ("table3", 6, 2), ("table4", 6, 4), ("table5", 6, 4), ("table6", 12, 6)]


@pytest.mark.parametrize(("key", "rows", "columns"), SHAPES)
def test_tables_have_the_papers_shape(key: str, rows: int, columns: int):
    table = open_table(key)
    assert (len(table.rows), len(table.columns)) == (rows, columns)
    for row in table.rows:
        assert len(row.paper) == len(row.measures) == columns
        for number, measure in zip(row.paper, row.measures, strict=True):
            assert (number is None) == (measure == "none")
            assert number is None or (0 <= number[0] <= 1 and 0 <= number[1] <= 0.5)


def test_numbers_of_the_paper_picked_at_random():
    one, two, six = open_table("table1"), open_table("table2"), open_table("table6")
    assert {row.model: row.paper[3] for row in one.rows}["absrel-gate"] == (0.98, 0.03)
    assert {row.model: row.paper for row in two.rows}["rel"] == ((1.0, 0.0), (0.77, 0.04), (0.40, 0.05))
    assert {row.model: row.paper[2] for row in six.rows}["geom-act-u"] == (0.72, 0.35)


@pytest.mark.parametrize("key", TABLES)
def test_every_row_has_its_recipe_at_paper_scale(key: str):
    table = open_table(key)
    for row in table.rows:
        for task in table.tasks:
            assert recipe_name(task, row.model, "paper") in names()


def test_rows_that_tables_share_have_the_same_numbers():
    one = {row.model: row.paper for row in open_table("table1").rows}
    for row in open_table("table5").rows:
        if not row.model.endswith("-first"):
            assert row.paper == one[row.model]
    for row in open_table("table6").rows:
        if row.model in one:
            assert (*row.paper[:2], *row.paper[4:]) == one[row.model]


def test_a_plan_has_every_run_once():
    runs = plan(("table1",), "paper").runs
    assert len(runs) == 9 * 2 * 5
    everything = plan(TABLES, "paper").runs
    assert len(everything) == len(set(everything))
    # 9 + 5 step counts + 3 first-column + 6 ACT models in two directions, 6 models on each of two other tasks.
    assert len(everything) == 5 * (2 * (9 + 5 + 3 + 6) + 6 + 6)


def test_a_plan_can_be_narrowed():
    runs = plan(("table1",), "paper", ("ndr", "lstm"), seeds=2, tasks="backward").runs
    assert [run.name for run in runs] == [
        f"ctl-backward-{model}-paper-seed{seed}" for seed in (0, 1) for model in ("lstm", "ndr")
    ]


def test_what_a_scale_lacks_is_said():
    found = plan(("table6",), "nowhere")
    assert not found.runs
    assert "ctl-forward-rel-act-a-nowhere" in found.lacking


def test_wrong_names_are_refused_with_the_nearest():
    with pytest.raises(Refusal, match='did you mean "table1"'):
        plan(("tabel1",), "paper")
    with pytest.raises(Refusal, match='no row "nrd" \\(did you mean "ndr"'):
        plan(("table1",), "paper", ("nrd",))
