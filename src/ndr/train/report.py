"""What a run tells while it goes on: a progress bar, metrics as JSON lines, TensorBoard, and curves."""

import json
import math
import sys
from collections.abc import Callable
from typing import Any, Self

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ndr.errors import Refusal, nearest, require
from ndr.train.checkpoint import write_whole
from ndr.train.evaluate import Score
from ndr.train.folder import RunFolder
from ndr.train.recipe import Recipe
from ndr.whole import read_whole

LOGGERS = ("tensorboard", "wandb")


class Report:
    """Rank 0 reports; the others (loggers=None) only watch their loss."""

    def __init__(
        self,
        folder: RunFolder,
        recipe: Recipe,
        loggers: tuple[str, ...] | None,
        watch: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.folder, self.recipe, self.watch = folder, recipe, watch
        self.speaks = loggers is not None
        self.losses: list[torch.Tensor] = []
        self.curve: list[dict[str, Any]] = []
        self.sinks = [open_logger(name, folder, recipe) for name in loggers or ()]
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:>6.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (self.speaks and self.console.is_terminal),
            expand=True,
        )

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
        for sink in self.sinks:
            sink.close()

    def begin(self, iteration: int) -> None:
        name = self.folder.path.name
        self.shown = self.bar.add_task(name, total=self.recipe.iterations, completed=iteration, state="")
        self.accuracies = ""
        if iteration and self.speaks:
            self.console.print(f"going on from iteration {iteration}")

    def step(self, iteration: int, loss: torch.Tensor) -> None:
        self.losses.append(loss)
        if iteration % 20 == 0 and not self.bar.disable:
            self.bar.update(self.shown, completed=iteration, state=f"loss {float(loss):.3f} {self.accuracies}")

    def mean_loss(self) -> float:
        """Over the iterations since the last evaluation."""
        return float(torch.stack(self.losses).mean()) if self.losses else math.nan

    def check_finite(self, iteration: int) -> None:
        if self.losses and not math.isfinite(self.mean_loss()):
            raise Refusal(
                f"the loss is no longer a number by iteration {iteration}; the last checkpoint is from before: "
                "use a smaller optimiser.learning_rate or optimiser.clip, in a new folder"
            )

    def evaluated(self, iteration: int, seconds: float, scores: dict[str, Score]) -> None:
        row: dict[str, Any] = {"iteration": iteration, "seconds": round(seconds, 2), "loss": round(self.mean_loss(), 6)}
        row |= {name: score.accuracy for name, score in scores.items()}
        self.losses.clear()
        self.curve.append(row)
        if not self.speaks:
            return
        self.write_curve()
        for sink in self.sinks:
            sink.log(row, iteration)
        self.accuracies = "  ".join(f"{name} {score.accuracy:.3f}" for name, score in scores.items())
        self.bar.update(self.shown, completed=iteration, state=f"loss {row['loss']:.3f}  {self.accuracies}")
        if self.bar.disable:
            print(
                f"{self.folder.path.name}: iteration {iteration}  loss {row['loss']:.3f}  {self.accuracies}",
                file=sys.stderr,
            )
        if self.watch:
            self.watch(row)

    def go_on_with(self, curve: list[dict[str, Any]]) -> None:
        """Take up the curve of a checkpoint. What was noted after it is dropped: it will be noted again."""
        if not all(is_row(row) for row in curve):
            raise ValueError("the curve of the checkpoint is none")
        self.curve = list(curve)
        if self.speaks and (curve or self.folder.metrics.exists()):
            self.write_curve()

    def write_curve(self) -> None:
        write_whole(self.folder.metrics, "".join(json.dumps(row) + "\n" for row in self.curve).encode())

    def noted(self, iteration: int) -> list[dict[str, Any]]:
        """The curve up to an iteration from metrics.jsonl, for checkpoints of earlier versions, which hold none."""
        if not self.folder.metrics.exists():
            return []
        rows = []
        for line in read_whole(self.folder.metrics).decode(errors="replace").splitlines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and isinstance(row.get("iteration"), int) and row["iteration"] <= iteration:
                rows.append(row)
        return rows

    def finish(self, result: dict[str, Any]) -> None:
        from ndr.train.curves import draw_curves

        draw_curves(self.curve, self.folder.curves, title=f"{self.recipe.name}, seed {result['seed']}")


def is_row(row: Any) -> bool:
    """Whether this is an evaluation as it is noted; a checkpoint may come from a stranger."""
    return (
        isinstance(row, dict)
        and {"iteration", "loss", "iid", "valid"} <= row.keys()
        and all(isinstance(value, int | float) for value in row.values())
    )


def open_logger(name: str, folder: RunFolder, recipe: Recipe) -> Any:
    if name == "tensorboard":
        return TensorBoard(folder)
    if name == "wandb":
        return WeightsAndBiases(folder, recipe)
    raise Refusal(f'there is no logger "{name}"{nearest(name, LOGGERS)}; there are {", ".join(LOGGERS)}')


class TensorBoard:
    def __init__(self, folder: RunFolder) -> None:
        require("tensorboard", "train")
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder.path / "tensorboard"))

    def log(self, row: dict[str, Any], iteration: int) -> None:
        for name, value in row.items():
            if name != "iteration":
                self.writer.add_scalar(name, value, iteration)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    def __init__(self, folder: RunFolder, recipe: Recipe) -> None:
        wandb = require("wandb", "track")
        self.run = wandb.init(
            project="ndr",
            name=folder.path.name,
            dir=str(folder.path),
            config=recipe.model_dump(mode="json"),
            resume="allow",
        )

    def log(self, row: dict[str, Any], iteration: int) -> None:
        self.run.log(row, step=iteration)

    def close(self) -> None:
        self.run.finish()
