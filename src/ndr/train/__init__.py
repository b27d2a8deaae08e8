"""One run: recipe, loop, checkpoint, evaluation, prediction."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndr.train.curves import draw_curves, draw_depths
    from ndr.train.evaluate import Score, evaluate
    from ndr.train.loop import train
    from ndr.train.open import Opened, open_network
    from ndr.train.predict import predict_lines
    from ndr.train.recipe import Recipe, load_recipe
    from ndr.train.snapping import snap
    from ndr.train.sweep import DepthScore, sweep_depths, sweep_split

# Loaded when asked for: `ndr train --help` needs none of it, and torch takes seconds.
HOMES = {
    "DepthScore": "sweep",
    "Opened": "open",
    "Recipe": "recipe",
    "Score": "evaluate",
    "draw_curves": "curves",
    "draw_depths": "curves",
    "evaluate": "evaluate",
    "load_recipe": "recipe",
    "open_network": "open",
    "predict_lines": "predict",
    "snap": "snapping",
    "sweep_depths": "sweep",
    "sweep_split": "sweep",
    "train": "loop",
}

__all__ = [
    "DepthScore",
    "Opened",
    "Recipe",
    "Score",
    "draw_curves",
    "draw_depths",
    "evaluate",
    "load_recipe",
    "open_network",
    "predict_lines",
    "snap",
    "sweep_depths",
    "sweep_split",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
