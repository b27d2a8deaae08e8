"""Accuracy against depth, far beyond the depths of training."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from ndr.data import Split, open_split
from ndr.data.store import bar
from ndr.errors import Refusal
from ndr.models import NeuralDataRouter
from ndr.models.network import Network, evaluating
from ndr.tasks.task import MAX_DEPTH, Progress
from ndr.train.evaluate import batches_of_one_length
from ndr.train.open import Opened

Steps = int | Literal["auto"] | None


@dataclass(frozen=True)
class DepthScore:
    """Accuracy at one depth with its 95 % interval, and the steps it took (the most of any batch)."""

    depth: int
    accuracy: float
    low: float
    high: float
    count: int
    steps: int


def sweep_split(
    opened: Opened, split: Split, steps: Steps = None, progress: Progress | None = None
) -> list[DepthScore]:
    """The depths of one split; `progress` is told how many samples more are done."""
    depths = np.asarray(split.depths)
    right = np.zeros(len(split), dtype=bool)
    taken = np.zeros(len(split), dtype=np.int64)
    with torch.no_grad(), evaluating(opened.network):
        for indices in batches_of_one_length(np.asarray(split.lengths)):
            batch = split.batch(indices)
            logits, used = answer_in(
                opened.network, batch.tokens.to(opened.network.device), steps, int(depths[indices].max())
            )
            right[indices] = (logits.argmax(-1).cpu() == batch.answers).numpy()
            taken[indices] = used
            if progress:
                progress(len(indices))
    return [score(int(depth), right[depths == depth], taken[depths == depth]) for depth in np.unique(depths)]


def sweep_depths(
    opened: Opened,
    depths: list[int],
    steps: Steps = None,
    count: int = 1_000,
    data: Path | None = None,
    *,
    progress: bool = False,
) -> Iterator[DepthScore]:
    """New samples of each depth, one after another; with a progress bar for each on request."""
    for depth in depths:
        name = f"depth-{depth}"
        split = open_split(opened.task, name, seed=opened.data_seed, folder=data, count=count, progress=progress)
        with bar(f"answering {name}", len(split), progress) as advance:
            scores = sweep_split(opened, split, steps, advance)
        yield from scores


def answer_in(network: Network, tokens: torch.Tensor, steps: Steps, depth: int) -> tuple[torch.Tensor, np.ndarray]:
    """Logits, and the number of steps behind each."""
    if isinstance(network, NeuralDataRouter) and steps == "auto":
        # A router that moves on by less than one operation in six steps is not going to settle.
        logits, taken = network.settle(tokens, bound=6 * (depth + 4))
        return logits, taken.cpu().numpy()
    if isinstance(network, NeuralDataRouter) and steps != "auto":
        logits, used = network(tokens, steps=steps), network.steps_now(steps, tokens.shape[1] + 2)
    elif steps is None:
        logits, used = network(tokens), tokens.shape[1]
    else:
        raise Refusal("a recurrent network takes one step per token: leave --steps out")
    return logits, np.full(len(tokens), used)


def score(depth: int, right: np.ndarray, taken: np.ndarray) -> DepthScore:
    accuracy = float(right.mean())
    low, high = wilson(int(right.sum()), len(right))
    return DepthScore(depth, accuracy, low, high, len(right), int(taken.max()))


def wilson(right: int, count: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval: sensible even when all are right."""
    share, spread = right / count, z * z / count
    centre = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    # At 0 and 1 one end is the share itself, but for rounding.
    return max(0.0, min(share, (centre - half) / (1 + spread))), min(1.0, max(share, (centre + half) / (1 + spread)))


def read_depths(text: str) -> list[int]:
    """`10,20,50` or `6-8` or both."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if (
            not first.isdecimal()
            or (dash and not last.isdecimal())
            or len(part) > 12
            or not 1 <= int(first) <= int(last or first) <= MAX_DEPTH
        ):
            raise Refusal(f'"{part}" is not a depth up to {MAX_DEPTH:,}; write --depths 10,20,50 or --depths 6-8')
        found.extend(range(int(first), int(last or first) + 1))
    return found
