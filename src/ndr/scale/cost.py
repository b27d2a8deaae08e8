"""What runs will cost: model FLOP, and seconds from a timed training step of each different network."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapreplace
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ndr.data.vocabulary import Vocabulary
from ndr.models.network import Network, build
from ndr.models.outline import outline
from ndr.models.router import NeuralDataRouter
from ndr.models.settings import RouterSettings
from ndr.tasks import Task
from ndr.train.optimise import build_optimisers
from ndr.train.recipe import Recipe

# A timed step is made of so few samples that it takes about this long, and scaled up.
SECONDS = 0.5
SAMPLES = 40


@dataclass(frozen=True)
class Cost:
    """Of one run to its last iteration, evaluations included; runs that stop when perfect cost less."""

    flop: float
    seconds: float | None
    """on one worker of this machine; None if not measured"""


def cost_of(recipe: Recipe, *, threads: int | None = 1) -> Cost:
    """FLOP by counting; seconds by timing a training step here with this many threads (None: do not time).

    A run that comes before counts, too.
    """
    samples, before = work(recipe), recipe.before()
    flop = samples * flop_per_sample(recipe)
    seconds = None if threads is None else samples * sample_seconds(shape_of(recipe), threads)
    if before is None:
        return Cost(flop, seconds)
    first = cost_of(before, threads=threads)
    return Cost(flop + first.flop, None if seconds is None or first.seconds is None else seconds + first.seconds)


def makespan(durations: Sequence[float], workers: int) -> float:
    """When the last of these runs ends, if each is begun in turn by the first worker that is free."""
    free = [0.0] * workers
    for duration in durations:
        heapreplace(free, free[0] + duration)
    return max(free)


def work(recipe: Recipe) -> float:
    """How many training samples a run's work is worth: an evaluated sample costs a third of a trained one."""
    task = recipe.open_task()
    model = recipe.model
    evaluated = sum(len(task.splits[name]) for name in ("iid", "valid"))
    longer = 1.0
    if isinstance(model, RouterSettings):
        longer = (model.test_steps or model.steps) / training_steps(recipe, model)
    evaluations = recipe.iterations / recipe.evaluate_every
    return recipe.iterations * mean_batch(recipe) + evaluations * evaluated * longer / 3


def flop_per_sample(recipe: Recipe) -> float:
    """Forward and backward of one sample: 6 per weight, column and step, and the products with other columns."""
    columns, model = mean_columns(recipe), recipe.model
    with outline():
        network = build(model)
    if isinstance(model, RouterSettings):
        assert isinstance(network, NeuralDataRouter)
        weights = sum(each.numel() for each in network.encoder.layer.parameters())
        return columns * training_steps(recipe, model) * (6 * weights + 12 * columns * model.width)
    weights = sum(each.numel() for name, each in network.named_parameters() if not name.startswith("embedding"))
    return columns * 6.0 * weights


def training_steps(recipe: Recipe, model: RouterSettings) -> float:
    """Of a batch, on average."""
    if recipe.steps is None:
        return model.steps
    depths, steps, linger = recipe.open_task().splits["train"].depths, recipe.steps, recipe.steps.linger
    needed = (steps.low + steps.high) / 2 + steps.per_depth * sum(depths) / len(depths)
    longer = 0.0 if linger is None else linger.share * (1 - linger.begin) * (linger.most + 1) / 2
    return needed + steps.per_column * tokens_of(recipe) + longer


def mean_batch(recipe: Recipe) -> float:
    """Samples of an iteration: as many as its columns have room for, if they are limited."""
    return recipe.batch if recipe.columns is None else min(recipe.batch, recipe.columns / (tokens_of(recipe) + 2))


def mean_columns(recipe: Recipe) -> float:
    """Columns of a training sample on average, with B and E and the tokens around it."""
    around = recipe.surroundings
    return tokens_of(recipe) + 2 + (around.share * around.most if around else 0)


def tokens_of(recipe: Recipe) -> float:
    """Tokens of a training sample on average."""
    return mean_length(recipe.open_task(), recipe.sampling not in ("uniform", "bucketed"))


@cache
def mean_length(task: Task, equally: bool) -> float:
    """Tokens of a training sample, from a few of each depth; every depth counts the same, or by its samples."""
    vocabulary = Vocabulary(task.tokens, task.answers)
    generator = np.random.default_rng(0)
    lengths, weights = [], []
    for depth, count in task.splits["train"].counts:
        texts = [task.sample(generator, depth) for _ in range(SAMPLES)]
        lengths.append(np.mean([len(vocabulary.tokenize(text)) for text in texts]))
        weights.append(1 if equally else count)
    return float(np.average(lengths, weights=weights))


@dataclass(frozen=True)
class Shape:
    """What the time of a step depends on."""

    recipe: Recipe
    columns: int
    steps: int | None
    """of a router"""

    @property
    def key(self) -> tuple[Any, ...]:
        model = self.recipe.model.model_copy(update={"task": None, "variant": ""})
        return model, self.recipe.optimiser, mean_batch(self.recipe), self.columns, self.steps

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.key == other.key


def shape_of(recipe: Recipe) -> Shape:
    model = recipe.model
    steps = round(training_steps(recipe, model)) if isinstance(model, RouterSettings) else None
    return Shape(recipe, round(mean_columns(recipe)), steps)


@cache
def sample_seconds(shape: Shape, threads: int) -> float:
    """Seconds of a training step over its samples, measured here on random tokens."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        network = build(shape.recipe.model)
        optimisers = build_optimisers(network, shape.recipe.optimiser)
        batch = round(mean_batch(shape.recipe))
        few = min(8, batch)
        step(network, optimisers, few, shape)
        taken = step(network, optimisers, few, shape)
        size = int(min(batch, max(few, few * SECONDS / max(taken, 1e-6))))
        return min(step(network, optimisers, size, shape) for _ in range(2)) / size
    finally:
        torch.set_num_threads(before)


def step(network: Network, optimisers: Sequence[torch.optim.Optimizer], size: int, shape: Shape) -> float:
    settings = network.settings
    tokens = torch.randint(len(settings.tokens), (size, max(1, shape.columns - 2)))
    answers = torch.randint(len(settings.answers), (size,))
    began = time.perf_counter()
    network.train()
    cross_entropy(network(tokens, steps=shape.steps), answers).backward()  # type: ignore[no-untyped-call]
    for optimiser in optimisers:
        optimiser.step()
        optimiser.zero_grad()
    return time.perf_counter() - began
