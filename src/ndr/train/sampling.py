"""Which samples, and how many steps, each iteration sees: pure functions of the seed and the iteration."""

from collections.abc import Callable
from functools import cache

import numpy as np

from ndr.data import Equal, LengthBucketed, Split, Uniform
from ndr.errors import Refusal
from ndr.train.recipe import Recipe, Stage


def schedule(recipe: Recipe, split: Split, seed: int) -> Callable[[int], np.ndarray]:
    """The sample indices of every iteration, through the stages of the curriculum."""
    lengths, depths = np.asarray(split.lengths), np.asarray(split.depths)
    ends = np.cumsum([stage.iterations for stage in recipe.curriculum])

    @cache
    def sampler(place: int) -> tuple[np.ndarray, Equal | LengthBucketed | Uniform]:
        chosen = np.arange(len(split))
        if place < len(recipe.curriculum):
            chosen = allowed(recipe.curriculum[place], lengths, depths)
        if len(chosen) < recipe.batch and recipe.sampling == "bucketed":
            raise Refusal(
                f"only {len(chosen)} samples are allowed at stage {place + 1}: fewer than a batch of {recipe.batch}"
            )
        match recipe.sampling:
            case "bucketed":
                return chosen, LengthBucketed(lengths[chosen], recipe.batch, seed + place)
            case "equal-length":
                return chosen, Equal(lengths[chosen], recipe.batch, seed + place)
            case "equal-depth":
                return chosen, Equal(depths[chosen], recipe.batch, seed + place)
            case "uniform":
                return chosen, Uniform(len(chosen), recipe.batch, seed + place)

    def at(iteration: int) -> np.ndarray:
        chosen, drawn = sampler(int(np.searchsorted(ends, iteration, side="right")))
        indices: np.ndarray = chosen[drawn.at(iteration)]
        return indices

    return at


def allowed(stage: Stage, lengths: np.ndarray, depths: np.ndarray) -> np.ndarray:
    fits = np.ones(len(lengths), dtype=bool)
    if stage.depth is not None:
        fits &= depths <= stage.depth
    if stage.length is not None:
        fits &= lengths <= stage.length
    if not fits.any():
        raise Refusal(f"no sample has at most depth {stage.depth} and {stage.length} tokens")
    return np.flatnonzero(fits)


def steps_at(recipe: Recipe, seed: int, iteration: int) -> int | None:
    """How many steps this batch takes; None leaves it to the model."""
    if recipe.steps is None:
        return None
    low, high = recipe.steps
    return int(np.random.default_rng([seed, iteration]).integers(low, high + 1))


def torch_seed(seed: int, iteration: int, rank: int) -> int:
    """Dropout of one iteration on one device. Seeding each iteration anew leaves no state to save."""
    return int(np.random.SeedSequence([seed, iteration, rank]).generate_state(1, np.uint64)[0] >> 1)
