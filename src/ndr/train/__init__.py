"""One run: recipe, loop, checkpoint, evaluation, prediction."""

from ndr.train.curves import draw_curves, draw_depths
from ndr.train.evaluate import Score, evaluate
from ndr.train.loop import train
from ndr.train.open import Opened, open_network
from ndr.train.predict import predict_lines
from ndr.train.recipe import Recipe, load_recipe
from ndr.train.sweep import DepthScore, sweep_depths, sweep_split

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
    "sweep_depths",
    "sweep_split",
    "train",
]
