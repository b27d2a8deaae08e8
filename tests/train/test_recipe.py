import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from ndr.errors import Refusal
from ndr.models.network import build
from ndr.models.settings import RouterSettings
from ndr.tasks import Task
from ndr.train.recipe import Sharpening, load_recipe, merge, names


def test_every_shipped_recipe_is_whole_and_its_network_is_built_for_its_task():
    assert len(names()) > 50
    for name in names():
        recipe = load_recipe(name)
        task = recipe.open_task()
        assert recipe.name == name
        assert recipe.name.startswith(task.name)
        assert recipe.model.tokens == task.tokens
        assert recipe.model.answers == task.answers
        assert recipe.model.task == task.name
        assert recipe.model.variant == task.variant


@pytest.mark.parametrize(
    ("name", "count"),
    [("ctl-forward-ndr-paper", 665_869), ("arithmetic-ndr-paper", 929_301), ("listops-ndr-paper", 2_656_813)],
)
def test_paper_recipes_have_the_papers_sizes(name: str, count: int):
    network = build(load_recipe(name).model)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_paper_settings_are_those_of_the_runs():
    ndr = load_recipe("ctl-backward-ndr-paper")
    assert (ndr.batch, ndr.iterations, ndr.sampling) == (512, 30_000, "bucketed")
    assert (ndr.optimiser.learning_rate, ndr.optimiser.weight_decay, ndr.optimiser.clip) == (1.5e-4, 0.01, 5.0)
    lstm = load_recipe("arithmetic-lstm-paper")
    assert (lstm.optimiser.kind, lstm.optimiser.clip, lstm.batch) == ("adam", 5.0, 256)
    assert load_recipe("listops-ndr-paper").model.test_steps == 24


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("steps", [4, 6, 8, 10, 12])
def test_ablations_of_the_number_of_steps_never_take_more(direction: str, steps: int):
    recipe = load_recipe(f"ctl-{direction}-ndr-{steps}-steps-small")
    assert isinstance(recipe.model, RouterSettings) and recipe.steps
    assert (recipe.steps.most, recipe.model.steps, recipe.model.test_steps) == (steps, steps, steps)


def test_sharpening_grows_evenly_or_slowly_at_first():
    even, slow = Sharpening(least=0.2, begin=0.1, end=0.5), Sharpening(begin=0.1, end=0.5, power=2)
    assert [round(even.share(done), 9) for done in (0, 0.1, 0.3, 0.5, 1)] == [0.2, 0.2, 0.6, 1, 1]
    assert [round(slow.share(done), 9) for done in (0, 0.1, 0.2, 0.3, 0.5, 1)] == [0, 0, 0.0625, 0.25, 1, 1]


def test_a_recipe_survives_its_file(tmp_path: Path):
    recipe = load_recipe("listops-rel-paper")
    file = tmp_path / "mine.json"
    file.write_text(recipe.model_dump_json())
    assert load_recipe(file) == recipe


def test_overrides_change_exactly_what_they_name():
    changed = load_recipe("ctl-forward-ndr-paper", ["optimiser.learning_rate=3e-3", "model.update.squash=crisp"])
    assert changed.optimiser.learning_rate == 3e-3
    assert changed.model.update.squash == "crisp"
    back = json.loads(changed.model_dump_json())
    back["optimiser"]["learning_rate"], back["model"]["update"]["squash"] = 1.5e-4, "sigmoid"
    assert back == json.loads(load_recipe("ctl-forward-ndr-paper").model_dump_json())


def test_an_override_can_begin_a_part_that_the_recipe_leaves_out():
    assert load_recipe("ctl-forward-ndr-paper").sharpening is None
    changed = load_recipe("ctl-forward-ndr-paper", ["sharpening.least=0.1"])
    assert changed.sharpening is not None and changed.sharpening.least == 0.1


def test_an_override_can_take_a_part_away():
    assert load_recipe("ctl-forward-crisp-small").sharpening is not None
    assert load_recipe("ctl-forward-crisp-small", ["sharpening=none"]).sharpening is None
    with pytest.raises(Refusal, match="batch"):
        load_recipe("ctl-forward-crisp-small", ["batch=none"])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("iteratoins=3", 'no key "iteratoins" (did you mean "iterations"?)'),
        ("optimiser.learning_rat=3", 'did you mean "learning_rate"?'),
        ("model.update.hiden=3", 'did you mean "hidden"?'),
        ("optimizer.clip=1", 'did you mean "optimiser"?'),
        ("curiculum.solved=0.9", 'did you mean "curriculum"?'),
        ("batch=0", "greater than or equal to 1"),
        ("model.attention.heads=3", "cannot be split into 3 heads"),
        ("batch", "not of the form key=value"),
    ],
)
def test_a_wrong_override_is_refused_in_one_sentence(override: str, sentence: str):
    with pytest.raises(Refusal) as refusal:
        load_recipe("ctl-forward-ndr-paper", [override])
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_only_answers_that_are_tokens_can_look_like_tokens():
    with pytest.raises(Refusal, match="likeness needs a router whose output is tied"):
        load_recipe("ctl-forward-ndr-small", ["likeness=0.1", "model.output=linear"])
    with pytest.raises(Refusal, match="likeness needs a router whose output is tied"):
        load_recipe("ctl-forward-lstm-small", ["likeness=0.1"])
    recipe = load_recipe("ctl-forward-ndr-small", ["likeness=0.1"])
    task = Mock(Task, tokens=("0", "1"), answers=("even", "odd"))
    task.name = "parity"
    assert recipe.on_task(task).likeness == 0
    task.answers = ("0", "1")
    assert recipe.on_task(task).likeness == 0.1


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(Refusal, match='did you mean "ctl-forward-ndr-small"'):
        load_recipe("ctl-forwrd-ndr-small")


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", '{"name": "x"}', "\x00"])
def test_a_damaged_recipe_file_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(Refusal):
        load_recipe(file)


def test_merging_replaces_a_part_of_another_kind_whole():
    base = {"update": {"kind": "residual", "hidden": 3, "dropout": 0.5}}
    assert merge(base, {"update": {"hidden": 5}}) == {"update": {"kind": "residual", "hidden": 5, "dropout": 0.5}}
    assert merge(base, {"update": {"kind": "copy-gate"}}) == {"update": {"kind": "copy-gate"}}


def test_merging_keeps_the_settings_that_all_optimisers_share():
    base = {"optimiser": {"kind": "adamw", "learning_rate": 7.0, "averaging": 0.5}}
    merged = merge(base, {"optimiser": {"kind": "soap", "averaging": "none"}})
    assert merged == {"optimiser": {"kind": "soap", "learning_rate": 7.0, "averaging": None}}


def test_a_row_can_be_like_another_with_changes():
    crisp, ndr = load_recipe("ctl-forward-crisp-small"), load_recipe("ctl-forward-ndr-small")
    assert crisp.curriculum == ndr.curriculum
    assert crisp.model.update.squash == "crisp" and ndr.model.update.squash == "sigmoid"


def test_none_takes_a_part_away():
    assert merge({"steps": {"low": 1}, "batch": 2}, {"steps": "none"}) == {"steps": None, "batch": 2}


def test_what_json_cannot_say_is_refused_too(tmp_path: Path):
    dated = tmp_path / "dated.toml"
    dated.write_text('batch = 2024-05-01\n[task]\nname = "ctl-forward"\n[model]\npreset = "ndr"\n')
    with pytest.raises(Refusal, match="batch"):
        load_recipe(dated)
    with pytest.raises(Refusal, match="batch"):
        load_recipe("ctl-forward-ndr-small", ["batch=" + "9" * 5_000])
