"""Tiny runs, and commands that can be killed."""

from pathlib import Path

import pytest

TINY = {
    "model.width": 16,
    "model.steps": 3,
    "model.test_steps": 3,
    "model.update.hidden": 32,
    "batch": 32,
    "iterations": 12,
    "evaluate_every": 4,
}


@pytest.fixture
def tiny() -> dict[str, object]:
    """Settings that make a recipe tiny."""
    return dict(TINY)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Splits are made once for all tests of the room."""
    return tmp_path_factory.mktemp("data")
