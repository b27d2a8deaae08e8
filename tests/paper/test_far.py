"""The page of depth sweeps says what the sweeps say."""

import json
from pathlib import Path

import pytest

from ndr.errors import Refusal
from ndr.paper import far_page
from ndr.paper.reach import read_reaches


def sweep(folder: Path, name: str, **accuracy: float) -> None:
    rows = {depth[1:]: {"accuracy": right, "count": 100, "steps": 7} for depth, right in accuracy.items()}
    (folder / "depths").mkdir(exist_ok=True)
    (folder / "depths" / f"{name}.json").write_text(json.dumps(rows))


def test_seeds_of_a_layer_are_put_together(tmp_path: Path) -> None:
    sweep(tmp_path, "ctl-forward-crisp-small-seed0", d10=1.0, d100=0.9)
    sweep(tmp_path, "ctl-forward-crisp-small-seed1", d10=1.0, d100=1.0)
    sweep(tmp_path, "ctl-forward-ndr-small-seed0", d10=0.5)
    (tmp_path / "far.md").write_text("Why it goes far.\n")
    far_page(tmp_path, tmp_path / "how-far.md")
    page = (tmp_path / "how-far.md").read_text()
    assert "Why it goes far." in page
    # 190 of 200 are right: Wilson's interval by hand.
    assert (
        "| crisp | 2 | **1.0000** [0.9812, 1.0000]; worst 1.0000 | **0.9500** [0.9104, 0.9726]; worst 0.9000 |" in page
    )
    assert "| ndr | 1 | **0.5000** [0.4038, 0.5962] |  |" in page
    assert (tmp_path / "images" / "how-far-ctl-forward.png").stat().st_size > 5_000


def test_in_short_each_layer_is_right_up_to_the_first_depth_that_is_not_solved(tmp_path: Path) -> None:
    sweep(tmp_path, "ctl-forward-crisp-small-seed0", d10=1.0, d100=0.97)
    sweep(tmp_path, "ctl-forward-crisp-small-seed1", d10=1.0, d100=0.99)
    sweep(tmp_path, "ctl-forward-ndr-small-seed0", d10=0.98, d20=0.5, d50=1.0)
    sweep(tmp_path, "listops-ndr-small-seed0", d9=0.2)
    far_page(tmp_path, tmp_path / "how-far.md")
    page = (tmp_path / "how-far.md").read_text()
    assert "| **100** (0.9800), the deepest tried | **10** (0.9800); 0.5000 at 20 |" in page
    assert "| ListOps (dependency depth) |  | none; 0.2000 at 9 |" in page


def test_what_leaves_an_ingredient_out_stands_beside_the_same_seed_of_the_whole(tmp_path: Path) -> None:
    sweep(tmp_path, "ctl-forward-crisp-small-seed0", d10=1.0)
    sweep(tmp_path, "ctl-forward-crisp-small-seed1", d10=0.0)
    sweep(tmp_path, "ctl-forward-crisp-without-thrift-small-seed0", d10=0.5)
    far_page(tmp_path, tmp_path / "how-far.md")
    before, after = (tmp_path / "how-far.md").read_text().split("### Which ingredient buys what")
    assert "| crisp | 2 | **0.5000**" in before and "thrift" not in before
    assert "| crisp | 1 | **1.0000**" in after and "| crisp-without-thrift | 1 | **0.5000**" in after
    assert "What it costs" not in after


def test_costs_are_the_first_milestone_that_is_solved(make, tmp_path: Path) -> None:
    make("ctl-forward-ndr-timed-small", 0, milestones={"1000": 0.98, "500": 0.5, "750": 0.979})
    make("ctl-forward-ndr-timed-small", 1, milestones={"500": 0.99})
    make("ctl-forward-crisp-timed-small", 0, milestones={"500": 0.5, "1250": 0.6})
    make("ctl-forward-ndr-small", 0, milestones={"500": 1.0})
    sweep(tmp_path / "runs", "ctl-forward-crisp-small-seed0", d10=1.0)
    far_page(tmp_path / "runs", tmp_path / "how-far.md")
    table, courses = (tmp_path / "how-far.md").read_text().partition("## What it costs")[2].split("<details>")
    assert "| ctl-forward | ndr | 2 | 750 | 1,000, 500 |" in table
    assert "| ctl-forward | crisp | 1 |  | never |" in table
    assert len(table.strip().splitlines()) == 6
    assert "- ctl-forward, ndr, seed 0: 500: 0.500, 750: 0.979, 1,000: 0.980\n" in courses
    assert "- ctl-forward, crisp, seed 0: 500: 0.500, 1,250: 0.600\n" in courses


def test_what_was_trained_is_told_in_settings_and_means(make, tmp_path: Path) -> None:
    make("listops-ndr-small", 0, iid=1.0, test=0.75, processor_seconds=60.0)
    make("listops-ndr-small", 1, iid=1.0, test=0.5, processor_seconds=180.0)
    make("ctl-forward-crisp-small", 3, test=1.0)
    make("ctl-forward-lstm-small", 3)
    sweep(tmp_path / "runs", "ctl-forward-crisp-small-seed0", d10=1.0)
    far_page(tmp_path / "runs", tmp_path / "how-far.md")
    table = (tmp_path / "how-far.md").read_text().partition("## What was trained")[2]
    crisp = "| `ctl-forward-crisp-small` |  | 64, 1, 128 | 4, 4 | 6,000 |  | 1 | 0.5000 | 1.0000 | 1.0000 |"
    listops = "64, 8, 256 | 0, 0 | 4,000 | 2 | 2 | 0.5000 | 0.6250 | 0.6250 |"
    assert [line for line in table.splitlines() if line.startswith("| `")] == [
        crisp,
        f"| `listops-ndr-small` | `listops-ndr-hurried-small` | {listops}",
    ]


def test_names_say_task_model_and_seed(tmp_path: Path) -> None:
    sweep(tmp_path, "ctl-backward-ndr-no-direction-small-seed3", d10=0.2)
    (reach,) = read_reaches(tmp_path)
    assert (reach.task, reach.model, reach.seed) == ("ctl-backward", "ndr-no-direction", 3)
    sweep(tmp_path, "something", d10=0.2)
    with pytest.raises(Refusal, match="task-model-scale-seedN"):
        read_reaches(tmp_path)


@pytest.mark.parametrize(
    "said",
    [
        {},
        [],
        {"x": {}},
        {"10": 3},
        *(
            {"10": {"accuracy": 0.5, "count": 9, "steps": 7} | each}
            for each in ({"accuracy": "high"}, {"accuracy": 3}, {"count": 0}, {"steps": None})
        ),
    ],
    ids=str,
)
def test_a_sweep_that_says_nonsense_is_refused_in_one_line(tmp_path: Path, said: object) -> None:
    sweep(tmp_path, "ctl-forward-ndr-small-seed0", d10=0.2)
    (tmp_path / "depths" / "ctl-forward-ndr-small-seed0.json").write_text(json.dumps(said))
    with pytest.raises(Refusal, match=r"is not the output of ndr eval --depths --json: [^\n]+$"):
        read_reaches(tmp_path)


def test_without_sweeps_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no sweeps"):
        far_page(tmp_path, tmp_path / "how-far.md")
    assert not (tmp_path / "how-far.md").exists()
