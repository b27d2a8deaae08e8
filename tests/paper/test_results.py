"""Results: found in both layouts, each run once, copied without loss."""

import json
from pathlib import Path

import pytest

from ndr.errors import Refusal
from ndr.paper import collect, read_results
from ndr.train.checkpoint import seal
from ndr.train.recipe import names

NAME = "ctl-forward-ndr-small"


@pytest.mark.parametrize(
    "changes",
    [
        {"best": [1, 2]},
        {"best": {"test": 3}},
        {"best": {"test": {"accuracy": "high"}}},
        {"best": {"test": {"accuracy": 7}}},
        {"last": None},
        {"milestones": {"soon": 0.5}},
        {"milestones": [0.5]},
        {"seconds": "long"},
        {"seconds": float("inf")},
        {"recipe": "mine"},
        {"recipe": {"name": None}},
        {"seed": float("inf")},
        {"seed": -1},
        {"seed": "0x"},
        {"failed": {"why": 3}},
    ],
    ids=str,
)
def test_a_result_that_says_nonsense_is_refused_in_one_line(make, tmp_path: Path, changes: dict):
    file = make(NAME, 0) / "result.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(Refusal, match=r"result\.json is damaged: [^\n]+; remove it, or copy it again$"):
        read_results(tmp_path / "runs")


def test_a_changed_digit_in_a_published_result_is_noticed(make, tmp_path: Path):
    file = make(NAME, 0, test=0.625) / "result.json"
    file.write_text(json.dumps(seal(json.loads(file.read_text()))))
    assert read_results(tmp_path / "runs")[0].accuracy("best", "test") == 0.625
    file.write_text(file.read_text().replace("0.625", "0.675"))
    with pytest.raises(Refusal, match="its checksum is another"):
        read_results(tmp_path / "runs")


def test_results_survive_collecting(make, tmp_path: Path):
    make(NAME, 0, test=0.5)
    make(NAME, 1, test=0.25)
    make("listops-lstm-paper", 3)
    copied, skipped = collect(tmp_path / "runs", tmp_path / "results")
    assert {path.relative_to(tmp_path / "results").as_posix() for path in copied} == {
        f"small/{NAME}-seed0.json",
        f"small/{NAME}-seed1.json",
        "paper/listops-lstm-paper-seed3.json",
    }
    assert not skipped
    there, here = read_results(tmp_path / "runs"), read_results(tmp_path / "results")
    assert [result.record for result in there] == [result.record for result in here]
    assert [result.scale for result in here] == ["small", "small", "paper"]


def test_collecting_again_copies_only_what_is_new(make, tmp_path: Path):
    make(NAME, 0)
    collect(tmp_path / "runs", tmp_path / "results")
    assert collect(tmp_path / "runs", tmp_path / "results")[0] == []
    make(NAME, 1)
    assert [path.stem for path in collect(tmp_path / "runs", tmp_path / "results")[0]] == [f"{NAME}-seed1"]


def test_a_run_in_two_places_counts_once_and_under_its_name(make, tmp_path: Path):
    make(NAME, 0, test=0.125, folder="another-try")
    make(NAME, 0, test=0.5)
    make(NAME, 0, test=0.25, folder="zzz")
    (result,) = read_results(tmp_path / "runs")
    assert result.accuracy("best", "test") == 0.5


def test_runs_with_other_settings_are_not_published(make, tmp_path: Path):
    out = make(NAME, 0)
    file = out / "result.json"
    data = json.loads(file.read_text())
    data["recipe"]["batch"] = 31
    file.write_text(json.dumps(data))
    copied, skipped = collect(tmp_path / "runs", tmp_path / "results")
    assert copied == []
    assert "batch is 31 there" in skipped[str(out)]


def test_failures_are_kept_and_a_later_result_replaces_them(make, tmp_path: Path):
    make(NAME, 0, failed="the loss is no longer a number")
    (result,) = read_results(tmp_path / "runs")
    assert result.failure == "the loss is no longer a number"
    make(NAME, 0, test=0.5)
    (result,) = read_results(tmp_path / "runs")
    assert result.failure is None


def test_unfinished_runs_and_other_files_are_passed_over(make, tmp_path: Path):
    (make(NAME, 0) / "result.json").unlink()
    (tmp_path / "runs" / "table-seed.json").write_text("[]")
    (tmp_path / "runs" / "summary.json").write_text("{}")
    assert read_results(tmp_path / "runs") == []


def test_a_damaged_result_is_refused_by_name(make, tmp_path: Path):
    (make(NAME, 0) / "result.json").write_text("{")
    with pytest.raises(Refusal, match=r"result\.json is damaged"):
        read_results(tmp_path / "runs")
    with pytest.raises(Refusal, match="no folder"):
        read_results(tmp_path / "nowhere")


def test_the_results_of_the_repository_belong_to_shipped_recipes():
    folder = Path(__file__).parents[2] / "results"
    for result in read_results(folder) if folder.is_dir() else []:
        assert result.recipe in names()
        assert result.path.stem == result.name
        assert result.path.parent.name == result.scale
