"""Does a grid with N workers on N cores give N times the throughput of one?

    python benchmarks/bench_scale.py [--workers 2] [--iterations 60]

Trains one run alone, then N at the same time, one thread each, through `ndr grid`'s engine. Throughput is training
iterations per second, summed over the runs of a grid; the target is 0.85·N times that of one. Meant for an idle
machine: the load before the start is printed with the result.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from ndr.data import open_split
from ndr.scale import Engine, Job, run_grid
from ndr.train import load_recipe

RECIPE = "ctl-forward-ndr-small"


def throughput(workers: int, iterations: int, out: Path) -> float:
    """Iterations per second of all runs together, while all of them run."""
    changes = [f"iterations={iterations}", f"evaluate_every={iterations}", "stop_when_perfect=null"]
    recipe = load_recipe(RECIPE, changes)
    jobs = [Job(f"{workers}-{seed}", recipe, seed) for seed in range(workers)]
    failed = run_grid(jobs, out, Engine(workers=workers, threads=1))
    assert not failed, failed
    results = [json.loads((out / job.name / "result.json").read_text()) for job in jobs]
    return float(sum(result["iterations"] / result["seconds"] for result in results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--iterations", type=int, default=60)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    task = load_recipe(RECIPE).open_task()
    for name in ("train", "iid", "valid", "test"):
        open_split(task, name)
    with tempfile.TemporaryDirectory() as folder:
        one = throughput(1, arguments.iterations, Path(folder) / "one")
        many = throughput(arguments.workers, arguments.iterations, Path(folder) / "many")
    ratio = many / one
    print(f"load before {load:.1f}; 1 worker {one:.2f} iterations/s, {arguments.workers} workers {many:.2f}")
    print(f"{ratio:.2f} times the throughput; target {0.85 * arguments.workers:.2f}")


if __name__ == "__main__":
    main()
