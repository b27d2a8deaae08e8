"""Which samples, and how many steps, each iteration sees: pure functions of the seed and the iteration."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch

from ndr.data import Equal, LengthBucketed, Split, Uniform
from ndr.errors import Refusal
from ndr.train.recipe import Recipe

RARE = 0.01
Schedule = Callable[[int, int, int], np.ndarray]


def schedule(recipe: Recipe, split: Split, sizes: np.ndarray, seed: int) -> Schedule:
    """The sample indices of an iteration, at a level of the curriculum, so many times as a batch holds.

    `sizes` are what grows in the curriculum.
    """
    lengths, depths = np.asarray(split.lengths), np.asarray(split.depths)
    match recipe.sampling:
        case "by-depth":
            return ByDepth(recipe, sizes, lengths, seed).at
        case "bucketed":
            return partial(any_level, LengthBucketed(lengths, recipe.batch, seed))
        case "equal-length":
            return partial(any_level, Equal(lengths, recipe.batch, seed))
        case "equal-depth":
            return partial(any_level, Equal(depths, recipe.batch, seed))
        case "uniform":
            return partial(any_level, Uniform(len(split), recipe.batch, seed))


def any_level(sampler: Equal | LengthBucketed | Uniform, iteration: int, level: int, times: int) -> np.ndarray:
    return sampler.at(iteration)


class ByDepth:
    """A depth (or what else grows), then a length, the common ones oftener, then samples of both: no padding."""

    def __init__(self, recipe: Recipe, sizes: np.ndarray, lengths: np.ndarray, seed: int) -> None:
        self.recipe, self.seed = recipe, seed
        self.groups = [groups_by(lengths, np.flatnonzero(sizes == size)) for size in np.unique(sizes)]

    def at(self, iteration: int, level: int, times: int = 1) -> np.ndarray:
        draw = np.random.default_rng([self.seed, iteration])
        members = self.groups[self.place(draw, level)]
        weights = np.array([len(indices) for _, indices in members]) ** (1.0 - self.recipe.even_lengths)
        length, indices = members[draw.choice(len(members), p=weights / weights.sum())]
        count = self.recipe.batch
        if self.recipe.columns is not None:
            count = min(count, max(1, self.recipe.columns // (length + 2)))
        chosen: np.ndarray = indices[draw.integers(len(indices), size=times * count)]
        return chosen

    def place(self, draw: np.random.Generator, level: int) -> int:
        """The newest size of the curriculum, or one of those before; without one, or at its end, any."""
        curriculum, last = self.recipe.curriculum, len(self.groups) - 1
        if curriculum is None or level >= last:
            return int(draw.integers(last + 1))
        if level == 0 or draw.random() < curriculum.newest:
            return level
        return int(draw.integers(level))


def sizes_of(recipe: Recipe, split: Split) -> np.ndarray:
    """What grows in the recipe's curriculum: depth, unless it says otherwise."""
    match recipe.curriculum.grows if recipe.curriculum else "depth":
        case "depth":
            return np.asarray(split.depths)
        case "length":
            return np.asarray(split.lengths)
        case "operations":
            return operations_of(split)


def operations_of(split: Split) -> np.ndarray:
    """The number of operations; those of one operation lie below 1, the longer the nearer: arguments grow first."""
    if not split.task.operators:
        raise Refusal(f"{split.task.name} does not say which tokens are operators, so its operations cannot grow")
    lengths, counts = np.asarray(split.lengths), split.count(split.task.operators)
    # Sizes that hardly occur are one size with the last common one.
    common = np.flatnonzero(np.bincount(counts) >= RARE * len(split))
    sizes: np.ndarray = np.where(counts == 1, lengths / (lengths.max() + 1), np.minimum(counts, common.max()))
    return sizes


def groups_by(lengths: np.ndarray, indices: np.ndarray) -> list[tuple[int, np.ndarray]]:
    return [(int(length), indices[lengths[indices] == length]) for length in np.unique(lengths[indices])]


def pool_at(recipe: Recipe, iteration: int, start: int = 0) -> int:
    """How many times as many samples as a batch holds are looked at."""
    chosen = recipe.selection
    return 1 if chosen is None or not has_begun(recipe, chosen.begin, iteration, start) else chosen.pool


def has_begun(recipe: Recipe, share: float, iteration: int, start: int) -> bool:
    """Whether this share of the iterations that follow `start` is over."""
    return iteration >= start + share * (recipe.iterations - start)


class Pace(NamedTuple):
    """How a batch goes through the network; None leaves it to the model."""

    steps: int | None = None
    sleep: float | None = None
    """the chance that a column sleeps through a step"""
    late: int = 0
    """the step at which some neighbouring columns wake up"""
    rest: int = 0
    """so many more steps, in which nothing should happen"""


def pace_at(recipe: Recipe, seed: int, iteration: int, depth: int, length: int, start: int = 0) -> Pace:
    """The pace of a batch of this depth and length; lingering begins at a share of what follows `start`."""
    if recipe.steps is None:
        return Pace()
    draw = np.random.default_rng([seed, iteration, 1])
    chosen, linger = recipe.steps, recipe.steps.linger
    drawn = int(chosen.per_depth * depth + chosen.per_column * length + draw.integers(chosen.low, chosen.high + 1))
    steps = min(max(1, drawn), chosen.most)
    if linger is None or not has_begun(recipe, linger.begin, iteration, start):
        return Pace(steps)
    if draw.random() >= linger.share:
        return Pace(steps)
    more = min(int(draw.integers(1, linger.most + 1)), chosen.most - steps)
    # Columns that sleep or are late have work to do in the additional steps, so they rest in other batches.
    busy = linger.sleep is not None or linger.late
    if linger.rest and not (busy and draw.random() < 0.5):
        return Pace(steps, rest=more)
    return Pace(steps + more, linger.sleep, more if linger.late else 0)


class Place(NamedTuple):
    """Where a problem stands: how many random tokens are on its left and right, and which column is asked."""

    left: int
    right: int
    ask: Literal["first", "last", "readout"]


def place_at(recipe: Recipe, seed: int, iteration: int) -> Place | None:
    """The place of this iteration's batch; None if it stands alone."""
    chosen = recipe.surroundings
    if chosen is None:
        return None
    draw = np.random.default_rng([seed, iteration, 2])
    if draw.random() >= chosen.share:
        if not chosen.across or draw.random() < 0.5:
            return None
        between = int(draw.integers(1, chosen.across + 1))
        return Place(0, between, "readout") if chosen.ask == "first" else Place(between, 0, "readout")
    left, right = draw.integers(chosen.most + 1, size=2)
    return Place(int(left), int(right), chosen.ask)


def surround(tokens: torch.Tensor, place: Place, kinds: int) -> tuple[torch.Tensor, int | None]:
    """Random tokens, out of so many kinds, on both sides of a batch; and the token among them that is asked, if any."""
    left, right = (torch.randint(kinds, (len(tokens), n), device=tokens.device) for n in (place.left, place.right))
    asked = {"first": place.left, "last": place.left + tokens.shape[1] - 1, "readout": None}[place.ask]
    return torch.cat([left, tokens, right], dim=1), asked


def wake_late(shape: tuple[int, int], step: int, device: torch.device) -> torch.Tensor:
    """The step at which each column wakes up: the first, but for some neighbours of each sample, drawn at random."""
    batch, columns = shape
    ends = torch.randint(columns + 1, (2, batch, 1), device=device)
    place = torch.arange(columns, device=device)
    return step * ((ends.amin(0) <= place) & (place < ends.amax(0))).int()


def wake_inside(tokens: torch.Tensor, opening: torch.Tensor, closing: torch.Tensor, step: int) -> torch.Tensor:
    """The step at which each token's column wakes up: the first, but for one whole problem inside each, if it has any.

    `opening` and `closing` are the tokens that begin and end a problem within a problem.
    """
    begins, ends = torch.isin(tokens, opening), torch.isin(tokens, closing)
    # How many problems a token stands in; the tokens that begin and end one stand in it, too.
    level = begins.int().cumsum(1) - ends.int().cumsum(1) + ends.int()
    # The first token begins the whole problem; the others are drawn alike.
    chances = begins.float()
    chances[:, 0] = 0
    has_any = chances.any(1, keepdim=True)
    first = torch.multinomial(chances + ~has_any, 1)
    place = torch.arange(tokens.shape[1], device=tokens.device)
    over = ends & (level == level.gather(1, first)) & (place > first)
    inside = (place >= first) & (over.int().cumsum(1) - over.int() == 0) & has_any
    return step * inside.int()


def torch_seed(seed: int, iteration: int, rank: int) -> int:
    """Dropout of one iteration on one device. Seeding each iteration anew leaves no state to save."""
    return int(np.random.SeedSequence([seed, iteration, rank]).generate_state(1, np.uint64)[0] >> 1)


def seed_device(seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for the processor and one device; asking after every kind of device takes a millisecond."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
