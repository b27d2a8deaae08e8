"""Learning, for real: a small router learns what two functions do, in about a minute."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ndr.tasks import SplitSpec, TableLookup, balanced
from ndr.train import load_recipe, train

SMALL = [
    "iterations=1600",
    "evaluate_every=200",
    "batch=96",
    "model.width=48",
    "model.steps=4",
    "model.test_steps=null",
    "model.update.hidden=96",
    "model.update.dropout=0.0",
    "optimiser.learning_rate=2e-3",
    "optimiser.averaging=0.99",
    "phases=run",
    "steps.linger.begin=0.6",
    "thrift=0.03",
]


class TwoFunctions(TableLookup):
    """Every single function and every pair of two, with every symbol."""

    @property
    def splits(self) -> Mapping[str, SplitSpec]:
        pairs = SplitSpec(balanced([2], 648))
        return {
            "train": SplitSpec(pairs.counts, always=super().splits["train"].always),
            "iid": pairs,
            "valid": pairs,
            "test": SplitSpec(balanced([3], 100)),
        }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_router_learns_two_functions_without_an_error(tmp_path: Path, data: Path):
    recipe = load_recipe("ctl-forward-ndr-small", SMALL)
    result = train(recipe, 0, tmp_path / "run", task=TwoFunctions(), data=data, loggers=())
    first, last = result["curve"][0], result["curve"][-1]
    assert first["iid"] < 0.5
    assert last["iid"] == 1.0
