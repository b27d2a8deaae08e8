"""Searches with an engine that is only pretended: the study alone remembers, the budget holds, hopeless runs stop."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ndr.errors import Refusal
from ndr.scale.board import Board
from ndr.scale.engine import Assignment, Engine
from ndr.scale.search import StudySource, open_study, read_curve, run_search, write_best
from ndr.scale.search_plots import draw_search
from ndr.scale.space import SearchFile, read_search
from ndr.train import load_recipe

pytest.importorskip("optuna")
# A run that is continued reports an evaluation again.
pytestmark = pytest.mark.filterwarnings("ignore:The reported value is ignored")

SEARCH = {
    "recipe": "ctl-forward-ndr-small",
    "set": {"iterations": 80, "evaluate_every": 10},
    "runs": 14,
    "space": {
        "optimiser.learning_rate": {"low": 1e-5, "high": 1e-1, "log": True},
        "model.steps": {"low": 4, "high": 20, "step": 1},
        "model.width": {"choices": [32, 64]},
        "model.update.hidden": {"choices": [1, 2, 4], "times": "model.width"},
    },
}


def pretend(source: StudySource, assignment: Assignment, until: int = 8) -> str:
    """A run whose accuracy depends on its learning rate and grows; `until` cuts it off."""
    rate = assignment.recipe["optimiser"]["learning_rate"]
    good = max(0.0, 1 - abs(rate - 1e-3) * 10 - 0.01 * assignment.recipe["model"]["steps"])
    assignment.folder.mkdir(parents=True, exist_ok=True)
    source.started(assignment.name)
    lines = []
    for evaluation in range(1, until + 1):
        row = {"iteration": 10 * evaluation, "seconds": 1.0, "iid": good, "valid": good * evaluation / 8}
        lines.append(json.dumps(row))
        (assignment.folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        if source.heard(assignment.name, row):
            return "stopped"
    if until < 8:
        return "cut off"
    source.ended(assignment.name, {"iteration": 80, "iid": good, "valid": good, "test": good})
    return "finished"


def open_source(out: Path, **changes: Any) -> StudySource:
    search = SearchFile.model_validate({**SEARCH, **changes})
    return StudySource(search, open_study(search, out), out, Board(1))


def work_through(source: StudySource) -> list[str]:
    ends = []
    while (assignment := source.next()) is not None:
        ends.append(pretend(source, assignment))
    return ends


def test_a_search_finds_the_good_region_and_stops_hopeless_runs(tmp_path: Path):
    source = open_source(tmp_path)
    ends = work_through(source)
    assert len(ends) == 14
    assert 4 <= ends.count("stopped") <= 11
    assert source.study.best_value > 0.8
    recipe = write_best(source.search, source.study, tmp_path)
    assert load_recipe(tmp_path / "best.json") == recipe
    assert recipe.optimiser.learning_rate == source.study.best_params["optimiser.learning_rate"]
    assert recipe.model.update.hidden == recipe.model.width * source.study.best_params["model.update.hidden"]
    pictures = draw_search(source.study, tmp_path)
    assert {path.name for path in pictures} == {"history.png", "parallel.png", "importance.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def test_a_search_that_is_cut_off_again_and_again_runs_each_trial_once(tmp_path: Path):
    chance = random.Random(0)
    told: list[int] = []
    while True:
        # Each round is a new command: everything it knows, it knows from the study.
        source = open_source(tmp_path, runs=5)
        assignment = source.next()
        if assignment is None:
            break
        other = source.next()
        for each in (assignment, other):
            if each is not None and pretend(source, each, chance.choice([1, 2, 8])) == "finished":
                told.append(int(each.name.removeprefix("trial-")))
    trials = source.study.get_trials()
    assert [trial.number for trial in trials] == list(range(5))
    assert all(trial.state.is_finished() for trial in trials)
    assert len(told) == len(set(told))
    # A search that goes on does not begin with the same draws again.
    assert len({trial.params["optimiser.learning_rate"] for trial in trials}) == 5


def test_trials_that_fail_are_told_and_do_not_stop_the_search(tmp_path: Path):
    space = {**SEARCH["space"], "model.attention.heads": {"choices": [3]}}
    source = open_source(tmp_path, runs=3, space=space)
    assert source.next() is None
    assert [trial.state.name for trial in source.study.get_trials()] == ["FAIL"] * 3
    assert "cannot be split into 3 heads" in source.study.get_trials()[0].user_attrs["failed"]
    with pytest.raises(Refusal, match="no run of the search has finished"):
        write_best(source.search, source.study, tmp_path)


def test_a_budget_in_hours_counts_over_all_commands(tmp_path: Path):
    source = open_source(tmp_path, runs=None, hours=1.0)
    first, second = source.next(), source.next()
    assert first is not None
    assert second is not None
    source.before = 3590.0
    assert pretend(source, first) == "finished"
    source.before = 3601.0
    assert pretend(source, second) == "stopped"
    assert source.next() is None
    again = open_source(tmp_path, runs=None, hours=1.0)
    assert again.next() is None
    assert open_source(tmp_path, runs=None, hours=2.0).next() is not None


def test_another_search_is_not_mixed_into_a_folder(tmp_path: Path):
    open_source(tmp_path)
    open_source(tmp_path, runs=30)
    with pytest.raises(Refusal, match="holds another search"):
        open_source(tmp_path, objective={"iid": 1.0})


def test_the_objective_can_mix_iid_and_valid():
    search = SearchFile.model_validate({**SEARCH, "objective": {"valid": 1.0, "iid": 3.0}})
    assert search.score({"valid": 0.4, "iid": 0.8}) == pytest.approx(0.7)


def test_table_10_of_the_paper():
    space = read_search("table10", {}).space
    assert {key: (each.low, each.high) for key, each in space.items() if each.choices is None} == {
        "optimiser.learning_rate": (0.00005, 0.001),
        "model.steps": (4, 20),
        "optimiser.weight_decay": (0.0, 0.1),
        "model.update.dropout": (0.0, 0.5),
        "model.attention.dropout": (0.0, 0.5),
    }
    assert {key: each.choices for key, each in space.items() if each.choices is not None} == {
        "model.width": [128, 256, 512],
        "model.attention.heads": [2, 4, 8, 16],
        "model.update.hidden": [1, 2, 4],
    }


@pytest.mark.parametrize("recipe", ["ctl-backward-absrel-gate-paper", "ctl-forward-rel-paper", "listops-ndr-paper"])
def test_table_10_fits_the_recipes_it_was_made_for(tmp_path: Path, recipe: str):
    search = read_search("table10", {"recipe": recipe, "runs": 5})
    source = StudySource(search, open_study(search, tmp_path), tmp_path, Board(1))
    for number in range(5):
        assignment = source.next()
        assert assignment is not None
        assert assignment.recipe["name"] == f"{recipe}-trial-{number:04}"
        model = assignment.recipe["model"]
        assert model["update"]["hidden"] in (model["width"], 2 * model["width"], 4 * model["width"])
    assert source.next() is None


def test_words_are_not_multiplied(tmp_path: Path):
    space = {"model.width": {"choices": ["wide"]}, "batch": {"low": 1, "high": 5, "times": "model.width"}}
    with pytest.raises(Refusal, match="is 'wide', which cannot be multiplied"):
        SearchFile.model_validate({**SEARCH, "space": space}).overrides({"model.width": "wide", "batch": 3})


def test_a_damaged_study_is_refused_in_a_sentence(tmp_path: Path):
    (tmp_path / "study.db").write_bytes(b"no database" * 99)
    with pytest.raises(Refusal, match=r"study.db cannot be used \(file is not a database\).* remove"):
        run_search(SearchFile.model_validate(SEARCH), tmp_path, Engine())


def test_a_damaged_curve_is_refused_in_a_sentence(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1}\n{"iter')
    with pytest.raises(Refusal, match=r"metrics\.jsonl is damaged"):
        read_curve(tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"space": {"batch": {"low": 1}}}, "give low and high, or choices"),
        ({"space": {"batch": {"low": 3, "high": 1}}}, "low must be less than high"),
        ({"space": {"batch": {"choises": [1]}}}, 'did you mean "choices"'),
        ({"objective": {"test": 1.0}}, "objective"),
        ({"budget": 3}, "budget"),
        ({"runs": 0}, "runs"),
        ({"space": {"batch": {"low": 1, "high": 1e300}}}, "space.batch.high"),
        ({"space": {"batch": {"low": 1, "high": 5, "step": 0}}}, "space.batch.step"),
        ({"space": {"batch": {"low": 0, "high": 5, "log": True}}}, "more than 0"),
        ({"space": {"batch": {"low": 1, "high": 5, "times": "model.widht"}}}, 'no setting "model.widht"'),
    ],
)
def test_a_bad_search_is_refused_in_one_sentence(tmp_path: Path, changes: dict, sentence: str):
    file = tmp_path / "s.json"
    file.write_text(json.dumps({**SEARCH, **changes}))
    with pytest.raises(Refusal, match=sentence):
        read_search(str(file), {})
    with pytest.raises(Refusal, match='did you mean "table10"'):
        read_search("tabel10", {})
