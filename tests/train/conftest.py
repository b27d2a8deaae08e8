"""Tiny runs: small enough to repeat, real enough to break."""

from pathlib import Path

import pytest

from ndr.train import Recipe, load_recipe

TINY = [
    "model.width=16",
    "model.steps=3",
    "model.test_steps=null",
    "model.update.hidden=32",
    "batch=32",
    "iterations=12",
    "evaluate_every=4",
]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Splits are made once for all tests of the room."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def shrink() -> list[str]:
    """The overrides that make a recipe tiny."""
    return list(TINY)


@pytest.fixture
def tiny(shrink: list[str]) -> Recipe:
    return load_recipe("ctl-forward-ndr-small", shrink)
