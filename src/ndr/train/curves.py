"""The learning curves of a run and accuracy against depth, as pictures."""

import io
from pathlib import Path
from typing import Any

from ndr.errors import require
from ndr.train.checkpoint import write_whole

# Okabe and Ito's colours can be told apart by everybody.
COLOURS = {"loss": "#555555", "iid": "#0072B2", "valid": "#D55E00", "test": "#009E73"}


def draw_curves(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    """Loss on the left axis, accuracies on the right."""
    figure = new_figure()
    losses = figure.add_subplot()
    accuracies = losses.twinx()
    iterations = [row["iteration"] for row in rows]
    losses.plot(iterations, [row["loss"] for row in rows], color=COLOURS["loss"], lw=1, label="loss")
    for name in ("iid", "valid"):
        accuracies.plot(iterations, [row[name] for row in rows], color=COLOURS[name], marker=".", label=name)
    losses.set(xlabel="iteration", ylabel="training loss", title=title)
    losses.set_ylim(bottom=0)
    accuracies.set(ylabel="accuracy", ylim=(0, 1.02))
    accuracies.legend(loc="center right")
    save_figure(figure, path)


def draw_depths(rows: list[dict[str, Any]], path: Path, title: str, trained: int | None = None) -> None:
    """Accuracy with its 95 % interval against depth."""
    figure = new_figure()
    axes = figure.add_subplot()
    depths = [row["depth"] for row in rows]
    accuracy = [row["accuracy"] for row in rows]
    low = [row["accuracy"] - row["low"] for row in rows]
    high = [row["high"] - row["accuracy"] for row in rows]
    axes.errorbar(depths, accuracy, yerr=[low, high], color=COLOURS["test"], marker="o", capsize=3)
    if trained is not None:
        axes.axvspan(min([*depths, 1]) - 0.5, trained + 0.5, color="#bbbbbb", alpha=0.4, lw=0, label="seen in training")
        axes.legend(loc="lower left")
    if max(depths) > 10 * max(min(depths), 1):
        axes.set_xscale("log")
        axes.set_xticks(depths, labels=[str(depth) for depth in depths])
        axes.minorticks_off()
    axes.set(xlabel="depth", ylabel="accuracy", ylim=(0, 1.03), title=title)
    axes.grid(alpha=0.3)
    save_figure(figure, path)


def new_figure() -> Any:
    require("matplotlib", "viz")
    from matplotlib.figure import Figure

    return Figure(figsize=(6.4, 4.0), layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:], dpi=150)
    write_whole(path, buffer.getvalue())
