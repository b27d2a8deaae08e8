"""What is not the network: making data and starting up."""

import subprocess
import sys

from ndr.bench.measure import Measure, side_by_side
from ndr.tasks import get_task
from ndr.tasks.task import fill_plain

TASKS = ("ctl-forward", "arithmetic", "listops")


def measure_data(name: str, rounds: int, count: int = 20_000, plain_count: int = 500) -> Measure:
    task = get_task(name)
    whole, part = task.describe("train", count), task.describe("train", plain_count)
    times = side_by_side({"fill": lambda: task.fill(whole, 0), "plain": lambda: fill_plain(task, part, 0)}, rounds)
    return Measure(
        f"data making: {name}",
        times["fill"] / count * 1e6,
        "µs a sample",
        {"plain Python": times["plain"] / plain_count * 1e6},
        f"{count} training samples",
    )


def measure_import(rounds: int) -> Measure:
    def start(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    times = side_by_side(
        {
            "ndr": lambda: start("import ndr"),
            "python alone": lambda: start("pass"),
            "torch": lambda: start("import torch"),
        },
        rounds,
    )
    return Measure(
        "import ndr",
        times["ndr"] * 1e3,
        "ms",
        {"python alone": times["python alone"] * 1e3, "import torch": times["torch"] * 1e3},
        "a new interpreter",
    )
