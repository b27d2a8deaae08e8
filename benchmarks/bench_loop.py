"""How much of a training iteration is neither forward, backward nor optimiser, at the size of the demo.

Run on a quiet machine: python benchmarks/bench_loop.py
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ndr.demo import RECIPE
from ndr.train import load_recipe
from ndr.train import loop as loop_module

ITERATIONS = 300


class Stopwatch:
    """Adds up the time inside the calls it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            result = function(*arguments, **options)
            self.seconds += time.perf_counter() - began
            return result

        return timed


def main() -> None:
    inside, whole = Stopwatch(), Stopwatch()

    class TimedLab(loop_module.Lab):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            self.model.classify = inside.around(self.model.classify)
            self.fabric.backward = inside.around(self.fabric.backward)
            self.fabric.clip_gradients = inside.around(self.fabric.clip_gradients)
            for optimiser in self.optimisers:
                optimiser.step = inside.around(optimiser.step)
                optimiser.zero_grad = inside.around(optimiser.zero_grad)
            if self.average is not None:
                # What the optimiser leaves behind is the average.
                self.average.update_parameters = inside.around(self.average.update_parameters)

        def look(self, progress: Any) -> None:
            """Evaluation is not part of an iteration."""

        def finish(self, progress: Any, seed: int) -> dict[str, Any]:
            return {"seconds": progress.seconds}

    loop_module.Lab = TimedLab  # type: ignore[misc]
    # Every depth from the beginning, as in most of a run: the curriculum starts with shorter problems than any later.
    recipe = load_recipe(RECIPE, [f"iterations={ITERATIONS}", f"evaluate_every={ITERATIONS}", "curriculum=null"])
    with tempfile.TemporaryDirectory() as folder:
        whole.seconds = loop_module.train(recipe, 0, Path(folder) / "run", loggers=())["seconds"]
    outside = 1 - inside.seconds / whole.seconds
    measure = {
        "name": "training loop outside forward, backward and optimiser",
        "value": round(outside, 4),
        "unit": "share of an iteration",
        "goal": 0.05,
        "milliseconds_per_iteration": round(1000 * whole.seconds / ITERATIONS, 2),
    }
    json.dump(measure, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
