"""Learning, for real: what a router learns in a minute on one core, and what its copy gate is worth."""

import json
from pathlib import Path

import pytest

from ndr.tasks import TableLookup
from ndr.train import Recipe, load_recipe, train

# Four functions are enough to compose; the paper's task has nine.
TASK = TableLookup(functions=4)
# The same small network and budget for both; only the update differs.
BUDGET = [
    f"model.tokens={json.dumps(TASK.tokens)}",
    "iterations=2000",
    "evaluate_every=100",
    "stop_when_perfect=2",
    "batch=64",
    "model.width=48",
    "model.steps=8",
    "model.test_steps=14",
    "optimiser.learning_rate=2e-3",
]
GATE = "model.update.hidden=96"
NO_GATE = 'model.update={"kind": "residual", "hidden": 96}'


def recipe(update: str) -> Recipe:
    return load_recipe("ctl-forward-ndr-small", [*BUDGET, update])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_router_learns_two_functions_and_its_gate_carries_it_further(tmp_path: Path, data: Path):
    router, gateless = (
        train(recipe(update), 0, tmp_path / str(place), task=TASK, data=data, loggers=())
        for place, update in enumerate((GATE, NO_GATE))
    )
    assert router["best"]["iid"]["accuracy"] == 1.0
    assert router["best"]["test"]["accuracy"] > gateless["best"]["test"]["accuracy"] + 0.1
