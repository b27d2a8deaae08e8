"""A measured figure, and how to measure several things so that they can be compared."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Measure:
    """One figure. A ratio is a yardstick divided by the value: above 1 is faster (or smaller) than the yardstick.

    The ratio to `limit` is the share of the matrix-multiply limit that is reached.
    """

    name: str
    value: float
    unit: str
    yardsticks: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def ratios(self) -> dict[str, float]:
        return {name: yardstick / self.value for name, yardstick in self.yardsticks.items()}

    def as_json(self) -> dict[str, object]:
        rounded = {name: float(f"{ratio:.4g}") for name, ratio in self.ratios.items()}
        return {
            "name": self.name,
            "value": float(f"{self.value:.6g}"),
            "unit": self.unit,
            "yardsticks": {name: float(f"{value:.6g}") for name, value in self.yardsticks.items()},
            "ratios": rounded,
            "note": self.note,
        }


def side_by_side(calls: Mapping[str, Callable[[], object]], rounds: int, seconds: float = 0.0) -> dict[str, float]:
    """The median time of each call in seconds. They take turns, so that a slow spell of the machine meets them all.

    A call that is shorter than `seconds` is repeated inside its turn.
    """
    repeats = {}
    for name, call in calls.items():
        call()
        began = time.perf_counter()
        call()
        repeats[name] = max(1, int(seconds / max(time.perf_counter() - began, 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - began) / repeats[name])
    return {name: median(each) for name, each in times.items()}
