"""How many steps a halting network takes, by the length of its input (Figure 4 of the paper's appendix)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ndr.errors import Refusal, require
from ndr.models import NeuralDataRouter
from ndr.models.network import evaluating
from ndr.view.plots import new_figure
from ndr.view.saving import save_picture
from ndr.whole import PICTURES, check_target

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PonderTimes:
    """The mean number of steps by length; a length counts B and E, as in the paper."""

    steps: Mapping[int, float]
    samples: Mapping[int, int]
    most: int


@torch.no_grad()
def ponder_times(network: NeuralDataRouter, texts: Sequence[str], steps: int | None = None) -> PonderTimes:
    """For each text the most updates of any of its columns, averaged over the texts of one length."""
    if network.settings.halting is None:
        raise Refusal("ponder times belong to networks with adaptive computation time (ACT); this one has none")
    by_length: dict[int, list[list[int]]] = {}
    for text in texts:
        ids = network.vocabulary.encode(network.vocabulary.tokenize(text))
        by_length.setdefault(len(ids) + 2, []).append(ids)
    if not by_length:
        raise Refusal("ponder times need at least one sample")
    means = {}
    most = network.steps_now(steps)
    with evaluating(network):
        for length, rows in sorted(by_length.items()):
            # One length at a time: no padding, and memory stays small.
            tokens = torch.tensor(rows, dtype=torch.long, device=network.device)
            encoded = network.encoder(network.embed(network.frame(tokens, None)[0]), steps=most)
            assert encoded.updates is not None
            means[length] = float(encoded.updates.amax(1).float().mean())
    return PonderTimes(means, {length: len(rows) for length, rows in sorted(by_length.items())}, most)


def plot_ponder_times(times: PonderTimes, out: str | Path | None = None) -> "Figure":
    """A bar per length; the red line is the most steps that the network may take."""
    require("matplotlib", "viz")
    path = None if out is None else check_target(Path(out), PICTURES)
    figure = new_figure(4.2, 2.6)
    axes = figure.subplots()
    lengths = list(times.steps)
    axes.bar([str(length) for length in lengths], [times.steps[length] for length in lengths], color="#0072b2")
    axes.axhline(times.most, color="#d55e00", linewidth=1.2, label=f"most steps: {times.most}")
    axes.set_xlabel("length with B and E", fontsize=9)
    axes.set_ylabel("mean number of steps", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.set_ylim(0, times.most * 1.18)
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if path is not None:
        save_picture(figure, path)
    return figure
