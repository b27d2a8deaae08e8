"""Does a grid with N workers on N cores give N times the throughput of one?

    python benchmarks/bench_scale.py [--workers 2] [--iterations 600] [--repeats 3]

Trains one run alone, then N at the same time, one thread each, through `ndr grid`'s engine, in turns. Throughput is
training iterations per second once a run has found its pace (its first third is left out), summed over the runs of a
grid; the target is 0.85·N times that of one, as the median of all turns. Meant for an idle machine: the load before the
start is printed with the result.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median

from ndr.data import open_split
from ndr.scale import Engine, Job, run_grid
from ndr.train import load_recipe

RECIPE = "ctl-forward-ndr-small"


def throughput(workers: int, iterations: int, out: Path) -> float:
    """Iterations per second of all runs together, while all of them run."""
    changes = [f"iterations={iterations}", f"evaluate_every={iterations // 3}"]
    recipe = load_recipe(RECIPE, changes)
    jobs = [Job(f"{workers}-{seed}", recipe, seed) for seed in range(workers)]
    failed = run_grid(jobs, out, Engine(workers=workers, threads=1))
    assert not failed, failed
    return sum(pace(out / job.name / "metrics.jsonl") for job in jobs)


def pace(metrics: Path) -> float:
    """Iterations per second from the first evaluation to the last."""
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    iterations, seconds = (rows[-1][key] - rows[0][key] for key in ("iteration", "seconds"))
    return float(iterations / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    task = load_recipe(RECIPE).open_task()
    for name in ("train", "iid", "valid", "test"):
        open_split(task, name)
    ratios = []
    for turn in range(arguments.repeats):
        with tempfile.TemporaryDirectory() as folder:
            one = throughput(1, arguments.iterations, Path(folder) / "one")
            many = throughput(arguments.workers, arguments.iterations, Path(folder) / "many")
        ratios.append(many / one)
        print(f"turn {turn}: 1 worker {one:.2f} iterations/s, {arguments.workers} workers {many:.2f}")
    target = 0.85 * arguments.workers
    print(f"load before {load:.1f}; {median(ratios):.2f} times the throughput (median); target {target:.2f}")


if __name__ == "__main__":
    main()
