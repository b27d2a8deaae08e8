"""Is the routing readable? Whether gates open when arguments are ready, and which head joins arguments to operators.

docs/figures.md defines every number.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndr.errors import Refusal, require
from ndr.models import NeuralDataRouter
from ndr.models.trace import Trace
from ndr.tasks import Task
from ndr.view.plots import new_figure
from ndr.view.saving import save_picture
from ndr.view.tree import Vertex, tree_of
from ndr.whole import PICTURES, check_target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A column whose gate never gets this far open has not opened at all.
OPEN = 0.1
SHUFFLES = 100


@dataclass(frozen=True)
class Timing:
    """How the opening of gates follows the tree, over a number of operations."""

    operations: int
    exact: float
    """share of operations whose gate opens at the very step at which their last argument is ready"""
    chance: float
    """the same after the opening steps of each text were dealt anew to its operations"""
    score: float
    """(exact - chance) / (1 - chance): 0 is chance, 1 is always"""
    p: float
    """share of deals that are at least as exact"""
    ordered: float
    """share of operation-argument pairs in which the operation opens after the argument"""
    ordered_chance: float
    lags: dict[int, float]
    """share of operations by opening minus ready; those that never open are left out"""
    lags_chance: dict[int, float]


@dataclass(frozen=True)
class HeadLink:
    """How one head joins operators and arguments; chance is the same with the tree's columns shuffled."""

    head: int
    collects: float
    """attention of an operator to its arguments at the step at which it opens, added up"""
    collects_chance: float
    marks: float
    """largest attention of an argument to its operator, up to the step at which that opens"""
    marks_chance: float

    def above_chance(self, name: str) -> bool:
        return bool(getattr(self, name) > getattr(self, f"{name}_chance"))


@dataclass(frozen=True)
class RoutingReport:
    """The reading of one network over a number of texts."""

    texts: int
    right: float
    """share of texts that the network answers rightly"""
    steps: int
    every: Timing
    """all operations wait for all their arguments"""
    needed: Timing
    """only operations that the result depends on, waiting for the arguments that it depends on"""
    heads: tuple[HeadLink, ...]

    @property
    def collecting_head(self) -> HeadLink:
        return max(self.heads, key=lambda link: link.collects - link.collects_chance)

    @property
    def marking_head(self) -> HeadLink:
        return max(self.heads, key=lambda link: link.marks - link.marks_chance)

    def sentence(self) -> str:
        timing, head = self.every, self.collecting_head
        return (
            f"{timing.exact:.0%} of {timing.operations} operations open exactly when their arguments are ready "
            f"(chance {timing.chance:.0%}, score {timing.score:.2f}, p {timing.p:.2g}); head {head.head} puts "
            f"{head.collects:.0%} of an operator's reading on its arguments (chance {head.collects_chance:.0%})"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "collecting_head": self.collecting_head.head,
            "marking_head": self.marking_head.head,
        }


@dataclass(frozen=True)
class Sample:
    """One text: its trace, and its operations with the steps at which their gates open."""

    trace: Trace
    tree: list[Vertex]
    operations: list[int]
    """places in the tree"""
    openings: np.ndarray
    """of each operation; -1 if it never opens"""


def draw_samples(task: Task, count: int, depths: Sequence[int], seed: int) -> list[str]:
    """Random texts of the task, as many of each depth."""
    if count < 1:
        raise Refusal(f"at least one sample is needed, not {count}")
    generator = np.random.default_rng(seed)
    return [task.sample(generator, depths[place % len(depths)]) for place in range(count)]


def read_routing(
    network: NeuralDataRouter,
    task: Task,
    texts: Sequence[str],
    *,
    steps: int | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> RoutingReport:
    """Trace every text and compare gates and attention with its tree. Texts need at least two operations."""
    if network.settings.update.kind != "copy-gate":
        raise Refusal("routing is read from gates, and this network has none")
    samples, right = [], 0
    for text in texts:
        tree = tree_of(task, text)
        if tree is None:
            raise Refusal(f"{task.name} has no parser, so there is no tree to compare with")
        operations = [place for place, vertex in enumerate(tree) if vertex.is_operation]
        if len(operations) < 2:
            continue
        trace = network.trace(text, steps=steps)
        right += trace.answer == tree[0].value
        columns = [tree[place].column for place in operations]
        samples.append(Sample(trace, tree, operations, opening_steps(trace)[columns]))
        if progress is not None:
            progress(1)
    if not samples:
        raise Refusal("no text has two operations or more: there is no order to read")
    return RoutingReport(
        texts=len(samples),
        right=right / len(samples),
        steps=max(sample.trace.steps for sample in samples),
        every=read_timing(samples, np.random.default_rng(seed), needed=False),
        needed=read_timing(samples, np.random.default_rng(seed), needed=True),
        heads=read_heads(samples, np.random.default_rng(seed)),
    )


def opening_steps(trace: Trace) -> np.ndarray:
    """For each column the first step at which its gate is half as open as it ever gets; -1 if it never opens."""
    assert trace.openness is not None
    openness = trace.openness.numpy()
    most = openness.max(0)
    first: np.ndarray = (openness >= most / 2).argmax(0)
    return np.where(most < OPEN, -1, first)


def waits(sample: Sample, needed: bool) -> list[tuple[int, list[int]]]:
    """(operation, the operations among its arguments), as places in `sample.operations`."""
    place_of = {place: at for at, place in enumerate(sample.operations)}
    found = []
    for at, place in enumerate(sample.operations):
        vertex = sample.tree[place]
        if needed and not vertex.needed:
            continue
        below = [place_of[child] for child in vertex.children if child in place_of]
        found.append((at, [one for one in below if not needed or sample.tree[sample.operations[one]].needed]))
    return found


def lags_of(openings: np.ndarray, waiting: list[tuple[int, list[int]]]) -> tuple[list[int | None], list[bool]]:
    """Opening minus ready for each operation (None: it, or an argument, never opens); and whether pairs are in order.

    Digits are ready at step 0; an operation's result is ready at the step after its gate opened.
    """
    lags: list[int | None] = []
    ordered = []
    for operation, arguments in waiting:
        opened = [int(openings[one]) for one in (operation, *arguments)]
        ordered += [opened[0] > one >= 0 for one in opened[1:]]
        ready = max((one + 1 for one in opened[1:]), default=0)
        lags.append(None if min(opened) < 0 else opened[0] - ready)
    return lags, ordered


def read_timing(samples: list[Sample], generator: np.random.Generator, needed: bool) -> Timing:
    waiting = [waits(sample, needed) for sample in samples]

    def measure(deal: bool) -> tuple[list[int | None], list[bool]]:
        lags: list[int | None] = []
        ordered: list[bool] = []
        for sample, one in zip(samples, waiting, strict=True):
            openings = generator.permutation(sample.openings) if deal else sample.openings
            found = lags_of(openings, one)
            lags += found[0]
            ordered += found[1]
        return lags, ordered

    lags, ordered = measure(deal=False)
    deals = [measure(deal=True) for _ in range(SHUFFLES)]
    exact = share([lag == 0 for lag in lags])
    by_chance = [share([lag == 0 for lag in dealt]) for dealt, _ in deals]
    chance = float(np.mean(by_chance))
    return Timing(
        operations=len(lags),
        exact=exact,
        chance=chance,
        score=(exact - chance) / (1 - chance) if chance < 1 else 0.0,
        # The true deal counts as one, so that p is never 0.
        p=(1 + sum(one >= exact for one in by_chance)) / (1 + SHUFFLES),
        ordered=share(ordered),
        ordered_chance=float(np.mean([share(dealt) for _, dealt in deals])),
        lags=histogram(lags),
        lags_chance=histogram([lag for dealt, _ in deals for lag in dealt]),
    )


def share(found: Sequence[bool]) -> float:
    return float(np.mean(found)) if found else 0.0


def histogram(lags: Sequence[int | None]) -> dict[int, float]:
    counted = Counter(lag for lag in lags if lag is not None)
    return {lag: counted[lag] / len(lags) for lag in sorted(counted)}


def read_heads(samples: list[Sample], generator: np.random.Generator) -> tuple[HeadLink, ...]:
    """For each head, the reading between operators and arguments, and the same between shuffled columns."""
    real, shuffled = [], []
    for sample in samples:
        same = np.arange(len(sample.trace.columns))
        real += links(sample, same)
        mixed = same.copy()
        # B and E stay where they are: they are never operators.
        mixed[1:-1] = generator.permutation(mixed[1:-1])
        shuffled += links(sample, mixed)
    if not real:
        raise Refusal("no gate of an operation ever opens: there is nothing to read")
    (collects, marks), (by_chance, marks_by_chance) = np.mean(real, axis=0), np.mean(shuffled, axis=0)
    rows = np.stack([collects, by_chance, marks, marks_by_chance], axis=1).tolist()
    return tuple(HeadLink(head, *row) for head, row in enumerate(rows))


def links(sample: Sample, place: np.ndarray) -> list[np.ndarray]:
    """[collects or marks, head] for each operation that opens; `place` says where each column is looked for."""
    attention = sample.trace.attention.numpy()
    found = []
    for at, one in enumerate(sample.operations):
        opened = int(sample.openings[at])
        if opened < 0:
            continue
        operator = place[sample.tree[one].column]
        arguments = place[[sample.tree[child].column for child in sample.tree[one].children]]
        collects = attention[opened][:, operator, arguments].sum(-1)
        marks = attention[: opened + 1][:, :, arguments, operator].max(0).mean(-1)
        found.append(np.stack([collects, marks]))
    return found


def plot_routing(report: RoutingReport, out: str | Path | None = None) -> "Figure":
    """Left: when gates open, counted from when the arguments are ready. Right: what each head joins."""
    require("matplotlib", "viz")
    path = None if out is None else check_target(Path(out), PICTURES)
    figure = new_figure(7.2, 2.9)
    left, right = figure.subplots(1, 2)
    timing = report.every
    low = max(-8, min((*timing.lags, *timing.lags_chance, 0)))
    high = min(8, max((*timing.lags, *timing.lags_chance, 0)))
    places = np.arange(low, high + 1)
    left.bar(places, [timing.lags.get(int(lag), 0) for lag in places], color="#0072b2", label="network")
    dealt = [timing.lags_chance.get(int(lag), 0) for lag in places]
    left.plot(places, dealt, "o--", color="#d55e00", markersize=3.5, linewidth=1, label="chance")
    left.set_xlabel("gate opens … steps after its arguments are ready", fontsize=8)
    left.set_ylabel("share of operations", fontsize=8)
    left.set_ylim(0, 1)
    left.set_xticks([lag for lag in places if len(places) < 12 or lag % 2 == 0])
    left.set_title(f"exact {timing.exact:.0%}, chance {timing.chance:.0%}, score {timing.score:.2f}", fontsize=9)
    heads = np.arange(len(report.heads))
    for shift, name, colour in ((-0.2, "collects", "#0072b2"), (0.2, "marks", "#56b4e9")):
        right.bar(heads + shift, [getattr(link, name) for link in report.heads], 0.38, color=colour, label=name)
        for head in heads:
            chance = getattr(report.heads[head], f"{name}_chance")
            right.hlines(chance, head + shift - 0.19, head + shift + 0.19, color="#d55e00", linewidth=1.5)
    right.plot([], [], color="#d55e00", linewidth=1.5, label="chance")
    right.set_xlabel("head", fontsize=8)
    right.set_ylabel("attention", fontsize=8)
    right.set_xlim(-1, max(len(report.heads), 1))
    right.set_xticks(heads)
    # The best head of a kind may still be no better than chance; then it has no such role.
    best = {"collects": report.collecting_head, "marks": report.marking_head}
    roles = [f"head {link.head} {name}" for name, link in best.items() if link.above_chance(name)]
    right.set_title(", ".join(roles) or "no head is above chance", fontsize=9)
    for axes in (left, right):
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7, frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    if path is not None:
        save_picture(figure, path)
    return figure
