"""Accuracy of a network on a split, per depth."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ndr.data import Split
from ndr.models.network import Network, evaluating

# Columns in one evaluation batch: bounds memory, whatever the lengths are.
COLUMNS = 8_192


@dataclass(frozen=True)
class Score:
    """How many were right, of how many, at each depth."""

    depths: dict[int, tuple[int, int]]

    @property
    def count(self) -> int:
        return sum(count for _, count in self.depths.values())

    @property
    def accuracy(self) -> float:
        return sum(right for right, _ in self.depths.values()) / max(self.count, 1)

    def record(self) -> dict[str, object]:
        """As JSON."""
        per_depth = {
            str(depth): {"accuracy": right / count, "count": count} for depth, (right, count) in self.depths.items()
        }
        return {"accuracy": self.accuracy, "count": self.count, "depths": per_depth}


def batches_of_one_length(lengths: np.ndarray, columns: int = COLUMNS) -> Iterator[np.ndarray]:
    """Indices in batches without padding, long ones first (if they fit into memory, all do)."""
    order = np.argsort(-lengths, kind="stable")
    starts = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    for group in np.split(order, starts[1:]):
        size = max(1, columns // (int(lengths[group[0]]) + 2))
        yield from (group[start : start + size] for start in range(0, len(group), size))


@torch.no_grad()
def predict_split(network: Network, split: Split, *, steps: int | None = None) -> np.ndarray:
    """The class the network chooses for every sample."""
    chosen = np.empty(len(split), dtype=np.int64)
    with evaluating(network):
        for indices in batches_of_one_length(np.asarray(split.lengths)):
            batch = split.batch(indices)
            logits = network(batch.tokens.to(network.device), steps=steps)
            chosen[indices] = logits.argmax(-1).cpu().numpy()
    return chosen


def evaluate(network: Network, split: Split, *, steps: int | None = None) -> Score:
    """Accuracy per depth. The number of steps is the network's own for testing, unless given."""
    right = predict_split(network, split, steps=steps) == np.asarray(split.answers)
    depths = np.asarray(split.depths)
    return Score(
        {int(depth): (int(right[depths == depth].sum()), int((depths == depth).sum())) for depth in np.unique(depths)}
    )
