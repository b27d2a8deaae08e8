"""Learning, for real: what a router learns in two minutes, and what its copy gate is worth."""

from pathlib import Path

import pytest

from ndr.train import Recipe, load_recipe, train

# The same width, steps and iterations for both; only the update differs.
BUDGET = ["iterations=1500", "evaluate_every=500", "model.steps=8", "model.test_steps=12"]
GATE = "model.update.hidden=256"
NO_GATE = 'model.update={"kind": "residual", "hidden": 256, "dropout": 0.1}'


def recipe(update: str) -> Recipe:
    return load_recipe("ctl-forward-ndr-small", [*BUDGET, update])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_router_learns_two_functions_and_its_gate_carries_it_further(tmp_path: Path, data: Path):
    router, gateless = (
        train(recipe(update), 0, tmp_path / str(place), data=data, loggers=())
        for place, update in enumerate((GATE, NO_GATE))
    )
    assert router["best"]["iid"]["depths"]["2"]["accuracy"] == 1.0
    assert router["best"]["valid"]["accuracy"] > gateless["best"]["valid"]["accuracy"] + 0.3
