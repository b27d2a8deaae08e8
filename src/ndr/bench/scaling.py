"""How the time of a training step grows with steps, batch, length and width, and shrinks with threads."""

from collections.abc import Callable
from dataclasses import replace

import torch

from ndr.bench.measure import Measure, side_by_side
from ndr.bench.training import PAPER, SMALL, Size, training_step

AXES: dict[str, tuple[int, ...]] = {
    "steps": (2, 4, 8, 16, 32),
    "batch": (32, 64, 128, 256, 512),
    "columns": (8, 16, 32, 64, 128),
    "width": (32, 64, 128, 256),
}


def at(axis: str, point: int) -> Size:
    changed = {axis: point, **({"hidden": 2 * point} if axis == "width" else {})}
    return replace(SMALL, **changed)  # type: ignore[arg-type]


def measure_scaling(axis: str, rounds: int) -> list[Measure]:
    calls = {str(point): training_step(at(axis, point)) for point in AXES[axis]}
    times = side_by_side(calls, rounds, seconds=0.05)
    return [
        Measure(f"scaling: {axis} = {point}", times[str(point)] * 1e3, "ms", note=f"training step, {SMALL.name}")
        for point in AXES[axis]
    ]


def measure_threads(rounds: int, size: Size = PAPER) -> list[Measure]:
    step, available = training_step(size), torch.get_num_threads()

    def with_threads(threads: int) -> Callable[[], None]:
        def run() -> None:
            torch.set_num_threads(threads)
            try:
                step()
            finally:
                torch.set_num_threads(available)

        return run

    counts = sorted({1, available})
    times = side_by_side({str(count): with_threads(count) for count in counts}, rounds)
    return [
        Measure(
            f"scaling: threads = {count}",
            times[str(count)] * 1e3,
            "ms",
            {"1 thread": times["1"] * 1e3},
            f"training step, {size.name}",
        )
        for count in counts
    ]
