"""How long the splits take, against the limits the project sets itself, and against a plain Python generator.

    python benchmarks/bench_data.py            # everything (about a minute on two idle cores)
    python benchmarks/bench_data.py --quick    # without the two splits of a million samples

Seconds depend on what else the machine does; the ratio is taken within one run, on one thread.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# One candidate takes microseconds: the ratio is fair only when both sides have one thread.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# (task, variant, split, most seconds)
LIMITS = [
    ("ctl-forward", "clean", "train", 5),
    ("ctl-backward", "paper", "train", 5),
    ("arithmetic", "clean", "train", 5),
    ("arithmetic", "paper", "train", 5),
    ("arithmetic", "paper", "test", 5),
    ("listops", "clean", "test", 5),
    ("listops", "paper", "test", 5),
    ("listops", "clean", "depth-20", 5),
    ("listops", "clean", "depth-30,length-200-1000", 5),
    ("listops", "clean", "train", 60),
    ("listops", "paper", "train", 60),
]

MAKE = """
import json, resource, sys, time
from ndr.data import open_split
import ndr.tasks.fill
from ndr.tasks import get_task
fill = sys.modules['ndr.tasks.fill']
name, variant, split, folder = sys.argv[1:]
fill.library()
task = get_task(name, variant)
start = time.perf_counter()
made = open_split(task, split, folder=folder)
seconds = time.perf_counter() - start
start = time.perf_counter()
open_split(task, split, folder=folder)
opened = time.perf_counter() - start
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
print(json.dumps({"samples": len(made), "seconds": seconds, "open": opened, "gib": memory}))
"""

# Samples per second of `Task.fill`, with the native library or without, over enough samples to be steady.
RATE = """
import sys, time
import ndr.tasks.fill
from ndr.tasks import get_task
fill = sys.modules['ndr.tasks.fill']
name, split, count, plain = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "plain"
fill.library()
if plain:
    fill.library = lambda: None
task = get_task(name)
spec = task.describe(split, count)
start = time.process_time()
task.fill(spec, 1)
print(count / (time.process_time() - start))
"""


def child(program: str, *words: str, environment: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=os.environ | (environment or {}), check=True, capture_output=True, text=True)
    return done.stdout.strip()


def main() -> None:
    quick = "--quick" in sys.argv
    print(f"{'split':45} {'samples':>9} {'seconds':>8} {'limit':>6} {'samples/s':>10} {'open ms':>8} {'GiB':>5}")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, variant, split, limit in LIMITS:
            if quick and limit > 5:
                continue
            found = json.loads(child(MAKE, name, variant, split, str(Path(folder))))
            rate = found["samples"] / found["seconds"]
            print(
                f"{f'{name} {variant} {split}':45} {found['samples']:9,} {found['seconds']:8.2f} {limit:6} "
                f"{rate:10,.0f} {1e3 * found['open']:8.1f} {found['gib']:5.2f}",
                flush=True,
            )
            if found["seconds"] > limit or found["open"] > 0.1 or found["gib"] > 2:
                missed.append(f"{name} {variant} {split}")
    print(f"\n{'one thread, samples per CPU second':45} {'native':>12} {'plain':>10} {'ratio':>7}")
    for name, split, many, few in (
        ("ctl-forward", "train", 50_000, 5_000),
        ("arithmetic", "train", 100_000, 2_000),
        ("listops", "train", 200_000, 1_000),
    ):
        native = float(child(RATE, name, split, str(many), "native", environment=ONE_THREAD))
        plain = float(child(RATE, name, split, str(few), "plain", environment=ONE_THREAD))
        print(f"{f'{name} {split}':45} {native:12,.0f} {plain:10,.0f} {native / plain:7.0f}", flush=True)
        if name == "listops" and native < 20 * plain:
            missed.append("listops ratio of 20")
    print(f"\nload average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    if missed:
        raise SystemExit(f"beyond the limit: {', '.join(missed)}")


if __name__ == "__main__":
    main()
