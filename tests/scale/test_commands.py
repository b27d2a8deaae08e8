"""What the commands print, and what they say when something is missing."""

import json
import sys
from pathlib import Path

import pytest

from ndr.errors import Refusal
from ndr.models.network import build
from ndr.scale.commands import draw_ponder, grid, reproduce, search
from ndr.train import load_recipe
from ndr.train.folder import Holding, RunFolder
from ndr.train.loop import save_network

NAME = "ctl-forward-ndr-small"


def finish_run(out: Path, seed: int, test: float, name: str = NAME) -> None:
    folder = out / f"{name}-seed{seed}"
    folder.mkdir(parents=True)
    recipe = load_recipe(name).model_dump(mode="json")
    score = {"accuracy": test, "count": 1000, "depths": {}}
    result = {"recipe": recipe, "seed": seed, "iterations": 9, "seconds": 60.0, "best_iteration": 9, "milestones": {}}
    result |= {"best": dict.fromkeys(("iid", "valid", "test"), score), "last": {"iid": score}, "curve": []}
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe, "seed": seed}))
    (folder / "result.json").write_text(json.dumps(result))


def test_a_plan_says_what_runs_cost_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    reproduce(("table1",), rows=("lstm", "bilstm"), seeds=2, scale="paper", out=tmp_path, dry_run=True, workers=2)
    text = capsys.readouterr().out
    assert "ctl-backward-bilstm-paper" in text
    assert "8 runs to make, 0.2" in text
    assert "here with 2 workers" in text
    assert list(tmp_path.iterdir()) == []


def test_a_grid_can_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    finish_run(tmp_path, 1, 0.5)
    grid((NAME,), seeds=2, out=tmp_path, dry_run=True)
    assert capsys.readouterr().out.splitlines() == [f"{NAME}-seed0: waiting", f"{NAME}-seed1: finished"]


def test_finished_runs_give_the_table_without_the_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "ray", None)
    for seed, value in enumerate((1.0, 0.5)):
        finish_run(tmp_path / "runs", seed, value)
    results, page = tmp_path / "results", tmp_path / "results.md"
    reproduce(("table1",), rows=("ndr",), from_=tmp_path / "runs", seeds=2, format="markdown", page=page)
    assert "0.75 ± 0.35" in capsys.readouterr().out
    assert "2 runs." in page.read_text()
    with pytest.raises(Refusal, match="there is no run to make"):
        reproduce(("table1",), rows=("ndr",), scale="nowhere", out=tmp_path / "runs", collect=results)


def test_a_table_whose_runs_are_finished_is_printed_and_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out, results = tmp_path / "runs", tmp_path / "results"
    for direction in ("forward", "backward"):
        finish_run(out, 0, 0.875, f"ctl-{direction}-ndr-small")
    reproduce(("table1",), rows=("ndr",), seeds=1, out=out, collect=results, format="latex")
    printed = capsys.readouterr()
    assert printed.out.count(r"\textbf{0.88}") == 4
    assert "0 runs to make" in printed.err
    assert "2 results copied" in printed.err
    assert len(list(results.glob("small/*.json"))) == 2


@pytest.mark.parametrize("what", [lambda out: grid((NAME,), out=out), lambda out: search("table10", runs=1, out=out)])
def test_without_the_engine_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Refusal, match=r"this needs ray; install it with: pip install 'ndr\[search\]'"):
        what(tmp_path / "runs")


def test_a_search_without_optuna_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(Refusal, match=r"this needs optuna; install it with: pip install 'ndr\[search\]'"):
        search("table10", runs=1, out=tmp_path / "search")


def test_the_ponder_figure_beside_table_6(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]):
    small = ["model.width=16", "model.update.hidden=16", "model.steps=3"]
    recipe = load_recipe("ctl-forward-rel-act-a-paper", small)
    run = RunFolder(tmp_path / f"{recipe.name}-seed0")
    run.path.mkdir()
    run.begin(recipe, 0)
    network = build(recipe.model)
    save_network(network.settings, network.state_dict(), run.best)
    draw_ponder("paper", tmp_path, data)
    assert (run.path / "ponder.png").read_bytes().startswith(b"\x89PNG")
    assert "ponder.png" in capsys.readouterr().err


def test_a_grid_in_use_is_refused(tmp_path: Path):
    with Holding(tmp_path), pytest.raises(Refusal, match="is in use by process"):
        grid((NAME,), out=tmp_path)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: reproduce(), "which table"),
        (lambda: reproduce(("table7",)), "there is no table"),
        (lambda: reproduce(("table1",), from_=Path("nowhere")), "there is no folder"),
        (lambda: search("table10", objective=("valid",)), "key=value"),
        (lambda: grid(("table6",), scale="nowhere"), "holds no runs"),
    ],
)
def test_bad_words_are_refused_in_one_sentence(call, sentence: str):
    with pytest.raises(Refusal, match=sentence):
        call()
