"""The paper's figures from any trace: attention, gates, chosen heads, and the flow of data through all steps.

Only matplotlib's objects are used, never pyplot: drawing changes nothing outside the figure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndr.errors import Refusal, nearest, require
from ndr.models.trace import Trace
from ndr.view.saving import FILMS, save_film, save_picture
from ndr.whole import PICTURES, check_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("attention", "gates", "heads", "flow")
MAP = "viridis"
# Inches that a figure may be wide before its panels go on in the next row.
WIDE = 12.0
Heads = int | Sequence[int] | None


@dataclass(frozen=True)
class Panel:
    """One attention map: the maximum over these heads (None: over all) at one step."""

    step: int
    heads: tuple[int, ...] | None

    @property
    def title(self) -> str:
        if self.heads is None:
            return f"t = {self.step}"
        one = "head" if len(self.heads) == 1 else "max of heads"
        return f"{one} {', '.join(map(str, self.heads))}, t = {self.step}"


def plot(
    trace: Trace,
    kind: str = "attention",
    *,
    steps: int | Sequence[int] | None = None,
    head: Heads = None,
    panels: Sequence[str] | None = None,
    out: str | Path | None = None,
) -> "Figure":
    """Draw a trace; with `out`, also write it (.png, .svg, .pdf; .gif or .mp4 for an animation of the steps).

    kind: "attention" (a map per step, the maximum over heads or one head), "gates" (every channel of every column
        per step), "heads" (a row of maps per head) or "flow" (which column took what from where, over all steps).
    steps: which steps, counted from 0; all of them when left out ("heads": four).
    head: one head, or several of which the maximum is shown ("heads": the rows).
    panels: for "heads", the maps one by one as "head@step" or "head+head@step", as in the paper's ListOps figure.
    """
    require("matplotlib", "viz")
    if kind not in KINDS:
        raise Refusal(f'there is no figure of kind "{kind}"{nearest(kind, KINDS)}; use {", ".join(KINDS)}')
    path = None if out is None else check_target(Path(out), (*PICTURES, *FILMS))
    if panels is not None and kind != "heads":
        raise Refusal('panels belong to the kind "heads"')
    shown = check_steps(trace, steps)
    heads = check_heads(trace, head)
    if path is not None and path.suffix.lower() in FILMS:
        return film(trace, kind, shown, heads, path)
    if kind == "attention":
        figure = draw_maps(trace, [Panel(step, heads) for step in shown])
    elif kind == "gates":
        figure = draw_gates(trace, shown)
    elif kind == "flow":
        figure = draw_flow(trace, shown, heads)
    elif panels is not None:
        chosen = [read_panel(trace, text) for text in panels]
        figure = draw_maps(trace, chosen, across=min(4, len(chosen)))
    else:
        shown = shown if steps is not None else spread(shown, 4)
        rows = heads or tuple(range(trace.attention.shape[1]))
        figure = draw_maps(trace, [Panel(step, (one,)) for one in rows for step in shown], across=len(shown))
    if path is not None:
        save_picture(figure, path)
    return figure


def check_steps(trace: Trace, steps: int | Sequence[int] | None) -> list[int]:
    chosen = list(range(trace.steps)) if steps is None else [steps] if isinstance(steps, int) else list(steps)
    for step in chosen:
        if not 0 <= step < trace.steps:
            raise Refusal(f"there is no step {step}: this trace has steps 0 to {trace.steps - 1}")
    if not chosen:
        raise Refusal("at least one step must be chosen")
    return chosen


def check_heads(trace: Trace, head: Heads) -> tuple[int, ...] | None:
    if head is None:
        return None
    chosen = (head,) if isinstance(head, int) else tuple(head)
    count = trace.attention.shape[1]
    for one in chosen:
        if not 0 <= one < count:
            raise Refusal(f"there is no head {one}: this network has {count} (0 to {count - 1})")
    return chosen or None


def read_panel(trace: Trace, text: str) -> Panel:
    """Read "13@0" or "3+5@7"."""
    heads, at, step = text.partition("@")
    try:
        panel = Panel(int(step), tuple(int(one) for one in heads.split("+")))
    except ValueError:
        at = ""
    if not at:
        raise Refusal(f'a panel is written "head@step" or "head+head@step", not "{text}"')
    check_steps(trace, panel.step)
    check_heads(trace, panel.heads)
    return panel


def spread(values: list[int], count: int) -> list[int]:
    """At most `count` of the values, evenly from the first to the last."""
    if len(values) <= count:
        return values
    return [values[round(place * (len(values) - 1) / (count - 1))] for place in range(count)]


def attention_map(trace: Trace, panel: Panel) -> np.ndarray:
    attention = trace.attention[panel.step]
    chosen = attention if panel.heads is None else attention[list(panel.heads)]
    found: np.ndarray = chosen.amax(0).numpy()
    return found


def new_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def arrange(count: int, side: float) -> tuple[int, int]:
    """How many panels of this width stand side by side, and in how many rows, the rows as even as can be.

    As many as fit on a page, and more when the picture would become a strip.
    """
    down = math.ceil(count / max(int(WIDE / (side + 0.15)), math.isqrt(count)))
    across = math.ceil(count / down)
    return across, math.ceil(count / across)


def cell_inches(columns: int) -> float:
    """How wide a column is drawn: as its label needs, closer together when there are many."""
    return min(0.24, max(0.085, 4.2 / columns))


def label_size(columns: int) -> float:
    return min(8.0, 72 * cell_inches(columns) * 0.8)


def label_columns(axes: "Axes", trace: Trace, x: bool, y: bool) -> None:
    """Tick labels B, tokens, E."""
    places = list(range(len(trace.columns)))
    size = label_size(len(places))
    upright = 90 if max(map(len, trace.columns)) > 1 else 0
    axes.tick_params(length=1.5, pad=1.5, width=0.5)
    axes.set_xticks(places, trace.columns if x else [""] * len(places), rotation=upright, fontsize=size)
    axes.set_yticks(places, trace.columns if y else [""] * len(places), fontsize=size)
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)


def draw_maps(trace: Trace, panels: list[Panel], across: int | None = None) -> "Figure":
    """A grid of attention maps: y is the target that reads, x the source that is read."""
    columns = len(trace.columns)
    side = max(1.1, columns * cell_inches(columns))
    across, down = (across, math.ceil(len(panels) / across)) if across else arrange(len(panels), side)
    figure = new_figure(across * (side + 0.15) + 1.1, down * (side + 0.35) + 0.6)
    grid = figure.subplots(down, across, squeeze=False)
    image = None
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        image = axes.imshow(attention_map(trace, panels[place]), cmap=MAP, vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(panels[place].title, fontsize=9, pad=3)
        below_is_empty = place + across >= len(panels)
        label_columns(axes, trace, x=below_is_empty, y=place % across == 0)
    figure.supxlabel("source", fontsize=9)
    figure.supylabel("target", fontsize=9)
    colour_bar(figure, image, grid, "attention")
    return figure


def colour_bar(figure: "Figure", image: Any, grid: Any, label: str) -> None:
    bar = figure.colorbar(image, ax=grid, fraction=0.02, pad=0.01, aspect=30, ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=7, length=2)
    bar.set_label(label, fontsize=8)
    bar.outline.set_linewidth(0.5)


def gate_of(trace: Trace) -> np.ndarray:
    if trace.gate is None:
        raise Refusal("this network has no gates; look at its attention instead")
    gate: np.ndarray = trace.gate.numpy()
    return gate


def draw_gates(trace: Trace, steps: list[int]) -> "Figure":
    """A panel per step: x is the column, y the channel of its gate."""
    gate = gate_of(trace)
    columns = len(trace.columns)
    side = max(1.1, columns * cell_inches(columns))
    across, down = arrange(len(steps), side)
    height = max(1.0, 0.75 * side)
    figure = new_figure(across * (side + 0.15) + 1.0, down * (height + 0.35) + 0.6)
    grid = figure.subplots(down, across, squeeze=False)
    image = None
    for place, axes in enumerate(grid.flat):
        if place >= len(steps):
            axes.set_axis_off()
            continue
        image = axes.imshow(gate[steps[place]].T, cmap=MAP, vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        axes.set_title(f"t = {steps[place]}", fontsize=9, pad=3)
        label_columns(axes, trace, x=place + across >= len(steps), y=False)
        axes.set_yticks([])
    figure.supxlabel("column", fontsize=9)
    figure.supylabel("channel of the gate", fontsize=9)
    colour_bar(figure, image, grid, "gate")
    return figure


def openness_of(trace: Trace) -> np.ndarray:
    """How far each column takes in its update: the mean of its gate; all the way without gates."""
    if trace.openness is None:
        return np.ones((trace.steps, len(trace.columns)), np.float32)
    openness: np.ndarray = trace.openness.numpy()
    return openness


def draw_flow(trace: Trace, steps: list[int], heads: tuple[int, ...] | None) -> "Figure":
    """Rows are steps, from the start downwards; a line is as strong as its attention times the target's gate."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    columns, openness = len(trace.columns), openness_of(trace)
    words = [[trace.answers[one] for one in row] for row in trace.logits.argmax(-1).tolist()]
    longest = max(map(len, (*trace.columns, *trace.answers)))
    wide, tall = max(0.26, 0.085 * longest + 0.1), 0.42
    figure = new_figure(columns * wide + 1.4, (len(steps) + 1) * tall + 0.7)
    axes = figure.subplots()
    ends: list[list[tuple[float, float]]] = []
    strengths: list[float] = []
    for row, step in enumerate(steps):
        taken = attention_map(trace, Panel(step, heads)) * openness[step][:, None]
        for target, source in zip(*np.nonzero(taken > 0.08), strict=True):
            ends.append([(float(source), row + 0.18), (float(target), row + 0.82)])
            strengths.append(float(taken[target, source]))
    order = np.argsort(strengths)
    lines = [(0.835, 0.369, 0.0, min(1.0, 0.1 + strengths[one])) for one in order]
    axes.add_collection(
        LineCollection(
            [ends[one] for one in order], colors=lines, linewidths=[0.4 + 1.8 * strengths[one] for one in order]
        )
    )
    norm, colours = Normalize(0, 1), ScalarMappable(cmap=MAP).get_cmap()
    rows: list[int | None] = [None, *steps]
    for row, at in enumerate(rows):
        for column in range(columns):
            face = (0.93, 0.93, 0.93, 1.0) if at is None else colours(norm(float(openness[at, column])))
            said = trace.columns[column] if at is None else words[at + 1][column]
            bright = at is None or sum(face[:3]) > 1.5
            read = column == trace.readout and row == len(steps)
            box = {"boxstyle": "round,pad=0.18", "facecolor": face, "edgecolor": "#d55e00" if read else "none"}
            ink = "black" if bright else "white"
            axes.text(
                column, row, said, ha="center", va="center", fontsize=6.5, color=ink, bbox=box, family="monospace"
            )
    axes.set(xlim=(-0.7, columns - 0.3), ylim=(len(steps) + 0.5, -0.5))
    axes.set_yticks(range(len(steps) + 1), ["input", *(f"t = {step}" for step in steps)], fontsize=7)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    colour_bar(figure, ScalarMappable(norm, MAP), axes, "gate (mean)" if trace.gate is not None else "no gates")
    return figure


def film(trace: Trace, kind: str, steps: list[int], heads: tuple[int, ...] | None, path: Path) -> "Figure":
    """One frame per step: the attention map above, the gates below."""
    if kind == "heads":
        raise Refusal('an animation shows "attention", "gates" or "flow" step by step; write "heads" as a picture')
    if kind == "flow":
        return film_of_flow(trace, steps, heads, path)
    columns = len(trace.columns)
    side = max(2.4, columns * max(0.16, cell_inches(columns)))
    gates = trace.gate is not None
    if kind == "gates":
        gate_of(trace)
    figure = new_figure(side + 1.2, side * (1.35 if gates else 1.0) + 1.0)
    rows = figure.subplots(2 if gates else 1, 1, squeeze=False, height_ratios=[1, 0.3] if gates else [1])[:, 0]
    attention = rows[0].imshow(attention_map(trace, Panel(steps[0], heads)), cmap=MAP, vmin=0, vmax=1)
    label_columns(rows[0], trace, x=True, y=True)
    rows[0].set(xlabel="source", ylabel="target")
    gate_image = None
    if gates:
        gate_image = rows[1].imshow(gate_of(trace)[steps[0]].T, cmap=MAP, vmin=0, vmax=1, aspect="auto")
        label_columns(rows[1], trace, x=True, y=False)
        rows[1].set_yticks([])
        rows[1].set(xlabel="column", ylabel="gate")
    colour_bar(figure, attention, list(rows), "")
    title = figure.suptitle("", fontsize=10)

    def draw(frame: int) -> None:
        panel = Panel(steps[frame], heads)
        attention.set_data(attention_map(trace, panel))
        if gate_image is not None:
            gate_image.set_data(gate_of(trace)[steps[frame]].T)
        title.set_text(panel.title)

    draw(0)
    save_film(figure, path, len(steps), draw)
    return figure


def film_of_flow(trace: Trace, steps: list[int], heads: tuple[int, ...] | None, path: Path) -> "Figure":
    """The flow grows row by row; what is still to come is covered."""
    from matplotlib.patches import Rectangle

    figure = draw_flow(trace, steps, heads)
    axes = figure.axes[0]
    cover = Rectangle((-1, 0), len(trace.columns) + 1, len(steps) + 2, facecolor="white", zorder=10)
    axes.add_patch(cover)

    def draw(frame: int) -> None:
        cover.set_y(frame + 1.5)

    save_film(figure, path, len(steps), draw)
    return figure
