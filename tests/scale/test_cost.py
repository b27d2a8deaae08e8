"""Costs: FLOP as the paper's runs had them, seconds that grow with the work."""

import numpy as np
import pytest

from ndr.scale.cost import (
    cost_of,
    flop_per_sample,
    makespan,
    mean_batch,
    mean_columns,
    sample_seconds,
    shape_of,
    training_steps,
    work,
)
from ndr.train import load_recipe


@pytest.mark.parametrize(
    ("name", "petaflop"),
    [
        ("ctl-forward-ndr-paper", 6),
        ("ctl-forward-transformer-paper", 1),
        ("arithmetic-ndr-paper", 80),
        ("listops-ndr-paper", 400),
    ],
)
def test_paper_runs_cost_what_was_counted_before(name: str, petaflop: float):
    cost = cost_of(load_recipe(name), threads=None)
    assert cost.seconds is None
    assert cost.flop / 1e15 == pytest.approx(petaflop, rel=0.35)


def test_a_run_costs_as_much_as_the_one_that_comes_before_as_well():
    name = "ctl-forward-lstm-small"
    alone, first = (cost_of(load_recipe(name, [f"iterations={count}"]), threads=None).flop for count in (10, 6000))
    assert load_recipe(name).iterations == 6000
    both = cost_of(load_recipe(name, ["iterations=10", f"start={name}"]), threads=None)
    assert both.seconds is None and both.flop == pytest.approx(alone + first)


@pytest.mark.parametrize(("around", "more"), [("null", 0), ('{"ask": "last", "share": 0.5, "most": 6}', 3)])
def test_flop_by_hand(around: str, more: int):
    changes = ["steps=null", "model.width=8", "model.update.hidden=16", "model.steps=3"]
    alone = load_recipe("ctl-forward-ndr-small", [*changes, "surroundings=null"])
    recipe = load_recipe("ctl-forward-ndr-small", [*changes, f"surroundings={around}"])
    # Query, key and value, content bias, sides with bias, three scales, output; two normalisations; update and gate.
    attention = 8 * 8 + 2 * 8 * 8 + 8 + (8 * 2 + 2) + 3 + 8 * 8
    update = 2 * 2 * 8 + (8 * 16 + 16 + 16 * 8 + 8) + (8 * 8 + 8) * 2
    columns = mean_columns(recipe)
    assert columns == mean_columns(alone) + more
    assert flop_per_sample(recipe) == pytest.approx(columns * 3 * (6 * (attention + update) + 12 * columns * 8))


def test_columns_of_table_lookup():
    recipe = load_recipe("ctl-forward-ndr-small", ["surroundings=null"])
    spec = recipe.open_task().splits["train"].counts
    depths, counts = zip(*spec, strict=True)
    assert mean_columns(recipe) == pytest.approx(np.mean(depths) + 1 + 2)
    uniform = load_recipe("ctl-forward-ndr-small", ["sampling=uniform", "curriculum=null", "surroundings=null"])
    assert mean_columns(uniform) == pytest.approx(np.average(depths, weights=counts) + 1 + 2)


def test_work_counts_evaluations_as_a_third():
    changes = ["iterations=100", "evaluate_every=10", "batch=7", "steps=null", "model.steps=5", "model.test_steps=10"]
    recipe = load_recipe("ctl-forward-ndr-small", changes)
    splits = recipe.open_task().splits
    evaluated = len(splits["iid"]) + len(splits["valid"])
    assert work(recipe) == pytest.approx(100 * 7 + 10 * evaluated * 2 / 3)


def test_both_directions_are_timed_once_and_larger_networks_take_longer():
    steps = 'steps={"low": 3, "high": 3}'
    small = ["model.width=16", "model.update.hidden=32", "batch=64", steps]
    forward, backward = (load_recipe(f"ctl-{each}-ndr-small", small) for each in ("forward", "backward"))
    assert shape_of(forward) == shape_of(backward)
    large = load_recipe("ctl-forward-ndr-small", ["model.width=128", "model.update.hidden=512", steps])
    assert sample_seconds(shape_of(large), 1) > sample_seconds(shape_of(forward), 1) > 0
    assert cost_of(forward).seconds == pytest.approx(work(forward) * sample_seconds(shape_of(backward), 1))


def test_the_last_run_ends_when_its_worker_is_done():
    assert makespan([3, 1, 1, 1], 1) == 6
    assert makespan([3, 1, 1, 1], 2) == 3
    assert makespan([1, 1, 1, 3], 2) == 4
    assert makespan([5, 1], 64) == 5
    assert makespan([], 3) == 0


def test_steps_by_depth_and_batches_by_columns():
    changes = ["sampling=by-depth", "columns=60", "batch=1000", 'steps={"low": 2, "high": 4, "per_depth": 1.5}']
    recipe = load_recipe("ctl-forward-ndr-paper", changes)
    depths = recipe.open_task().splits["train"].depths
    assert mean_batch(recipe) == pytest.approx(60 / mean_columns(recipe))
    assert training_steps(recipe, recipe.model) == pytest.approx(3 + 1.5 * sum(depths) / len(depths))
    lingering = [*changes[:3], 'steps={"low": 2, "high": 2, "linger": {"most": 9, "share": 0.5, "begin": 0.6}}']
    # In four tenths of the iterations half of the batches take one to nine steps more.
    assert training_steps(load_recipe(recipe.name, lingering), recipe.model) == pytest.approx(2 + 0.4 * 0.5 * 5)


def test_a_step_is_timed_with_the_steps_and_columns_of_training():
    changes = ['steps={"low": 3, "high": 3}', "model.steps=20", "model.test_steps=12", "iterations=100", "batch=7"]
    recipe = load_recipe("ctl-forward-ndr-small", [*changes, "evaluate_every=100"])
    shape = shape_of(recipe)
    assert shape.steps == 3 and shape.columns == round(mean_columns(recipe))
    evaluated = sum(len(recipe.open_task().splits[name]) for name in ("iid", "valid"))
    assert work(recipe) == pytest.approx(100 * 7 + evaluated * 4 / 3)
    assert shape_of(load_recipe("ctl-forward-lstm-small")).steps is None
