"""Measures as a table, as JSON, as plots and as the page docs/performance.md."""

import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ndr.bench.measure import Measure
from ndr.errors import Refusal, require
from ndr.whole import read_text, write_whole

MEASURES = TypeAdapter(list[Measure])
PAGE = """# Performance

This page is made from `{source}` by `ndr bench --from-json {source} --page docs/performance.md`; do not edit it.
The figures are medians of several rounds in one run of `ndr bench` on {machine}.

A ratio is the yardstick divided by the figure: 2 means twice as fast (or half as large) as the yardstick.

- **limit** is the share of the matrix-multiply limit that is reached: the floating-point operations of all matrix
  products of the step (the layer's five, attention's two, forward and twice that backward) at the rate which
  `torch.mm` reaches in the same run on the layer's own five products, forward and backward, over the whole batch.
- **plain torch** is the same network with `NDR_PLAIN=1`: the readable layer, step by step.
- **TransformerEncoderLayer** is torch's own layer of the same width, inner width, heads and dropout, applied as
  often. It does less: one feed-forward instead of an update and a gate.
- **reference** is the formula of the paper in plain torch; **scaled_dot_product_attention** is torch's softmax
  attention, which has no product over distances to take.

{table}

## How the time grows

{growth}

How the attention works and why its memory is linear: [geometric attention](geometric-attention.md). What the steps
do in one call: the comments of `src/ndr/nn/steps.cpp`.
"""


def write_json(measures: Iterable[Measure], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps([measure.as_json() for measure in measures], indent=1, ensure_ascii=False) + "\n"
    write_whole(path, content.encode())


def read_json(path: Path) -> list[Measure]:
    try:
        found: list[dict[str, Any]] = json.loads(read_text(path))
        names = ("name", "value", "unit", "yardsticks", "note")
        measures = MEASURES.validate_python([{name: each[name] for name in names} for each in found])
        if not all(measure.value > 0 for measure in measures):
            raise ValueError("a measure is a positive number")
        return measures
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refusal(f"{path} holds no measures of ndr bench") from error


def cells(measure: Measure) -> tuple[str, str, str, str]:
    ratios = ", ".join(
        f"{name} {measure.yardsticks[name]:.4g}: **{ratio:.2f}**" for name, ratio in measure.ratios.items()
    )
    return measure.name, f"{measure.value:.4g} {measure.unit}", ratios, measure.note


def table(measures: Iterable[Measure]) -> str:
    rows = ["| measure | figure | yardsticks: ratio | |", "|---|---|---|---|"]
    return "\n".join([*rows, *("| " + " | ".join(cells(measure)) + " |" for measure in measures)])


def axis_of(measure: Measure) -> tuple[str, int] | None:
    """("steps", 8) for the measure "scaling: steps = 8"."""
    head, _, tail = measure.name.partition(": ")
    if head != "scaling":
        return None
    axis, _, point = tail.partition(" = ")
    return axis, int(point)


def curves(measures: Iterable[Measure]) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for measure in measures:
        if place := axis_of(measure):
            found.setdefault(place[0], {})[place[1]] = measure.value
    return found


def growth(measures: Iterable[Measure]) -> str:
    lines = []
    for axis, points in curves(measures).items():
        row = ", ".join(f"{point}: {value:.4g} ms" for point, value in points.items())
        lines.append(f"- {axis} — {row}")
    return "\n".join(lines)


def write_page(measures: list[Measure], page: Path, source: Path) -> None:
    plain = [measure for measure in measures if axis_of(measure) is None]
    machine = f"one {platform.machine()} machine"
    text = PAGE.format(source=source, table=table(plain), growth=growth(measures), machine=machine)
    write_whole(page, text.encode())


def draw(measures: list[Measure], folder: Path) -> list[Path]:
    plt = require("matplotlib.pyplot", "viz")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for axis, points in curves(measures).items():
        figure, axes = plt.subplots(figsize=(4.5, 3))
        axes.plot(list(points), list(points.values()), "o-", color="#31688e")
        # From the origin: a straight line through it is growth in proportion.
        axes.set(xlabel=axis, ylabel="ms for a training step", xlim=(0, None), ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        drawn.append(folder / f"scaling-{axis}.png")
        figure.savefig(drawn[-1], dpi=150)
        plt.close(figure)
    return drawn
