"""What a split holds, as a table and as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndr.data.split import Split
from ndr.errors import require
from ndr.whole import fill_whole


@dataclass(frozen=True)
class DepthStats:
    """The samples of one depth."""

    depth: int
    count: int
    mean_length: float
    shortest: int
    longest: int
    # Share of the most common answer: what a model that looks at nothing can reach.
    majority: float


def depth_stats(split: Split) -> list[DepthStats]:
    found = []
    for depth in np.unique(split.depths):
        chosen = split.depths == depth
        lengths = split.lengths[chosen]
        majority = np.bincount(split.answers[chosen]).max() / len(lengths)
        shortest, longest = int(lengths.min()), int(lengths.max())
        found.append(DepthStats(int(depth), len(lengths), float(lengths.mean()), shortest, longest, float(majority)))
    return found


def draw_histograms(split: Split, out: Path) -> None:
    """Depth, length and answer, side by side."""
    figures: Any = require("matplotlib.figure", "viz")
    # A Figure of its own, not pyplot: no global state and no display.
    figure = figures.Figure(figsize=(12, 3.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    low, high = int(split.depths.min()), int(split.depths.max())
    counts = np.bincount(split.depths)[low:]
    left.bar(range(low, high + 1), counts, color="#3b6ea5")
    left.set(xlabel="depth (operations on the longest needed path)", ylabel="samples")
    left.xaxis.get_major_locator().set_params(integer=True)
    bins = np.arange(split.lengths.min(), split.lengths.max() + 2) - 0.5
    middle.hist(split.lengths, bins=bins if len(bins) <= 200 else 100, color="#3b6ea5")
    middle.set(xlabel="length (tokens)")
    names = split.task.answers
    right.bar(range(len(names)), np.bincount(split.answers, minlength=len(names)) / len(split), color="#3b6ea5")
    right.set(xlabel="answer", ylabel="share of samples")
    if len(names) <= 20:
        right.set_xticks(range(len(names)), names, rotation=45 if max(map(len, names)) > 2 else 0)
    figure.suptitle(
        f"{split.task.name} ({split.task.variant}), {split.name}: {len(split):,} samples, seed {split.seed}"
    )
    fill_whole(out, lambda unfinished: figure.savefig(unfinished, dpi=120))
