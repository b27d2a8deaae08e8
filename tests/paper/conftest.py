"""Results as runs write them, made by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ndr.train.recipe import load_recipe

Make = Callable[..., Path]


def record(recipe: str, seed: int, iid: float, test: float, **more: Any) -> dict[str, Any]:
    def score(accuracy: float) -> dict[str, Any]:
        return {"accuracy": accuracy, "count": 1000, "depths": {}}

    return {
        "recipe": load_recipe(recipe).model_dump(mode="json"),
        "seed": seed,
        "iterations": 70,
        "seconds": 90.0,
        "best_iteration": 50,
        "milestones": {},
        "best": {"iid": score(0.5), "valid": score(test), "test": score(test)},
        "last": {"iid": score(iid), "valid": score(0.25), "test": score(test - 0.125)},
        "curve": [],
        **more,
    }


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write the folder of a finished (or, with `failed`, of a failed) run."""

    def write(
        recipe: str, seed: int, iid: float = 1.0, test: float = 0.75, folder: str | None = None, **more: Any
    ) -> Path:
        out = tmp_path / "runs" / (folder or f"{recipe}-seed{seed}")
        out.mkdir(parents=True, exist_ok=True)
        data = record(recipe, seed, iid, test, **more)
        (out / "recipe.json").write_text(json.dumps({"recipe": data["recipe"], "seed": seed}))
        if "failed" in more:
            kept = {"recipe": data["recipe"], "seed": seed, "failed": more["failed"]}
            (out / "failure.json").write_text(json.dumps(kept))
        else:
            (out / "result.json").write_text(json.dumps(data))
        return out

    return write
