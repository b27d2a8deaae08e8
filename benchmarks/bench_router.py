"""Training step, attention, inference, data and import beside their yardsticks: the same as `ndr bench`.

Run on a quiet machine: python benchmarks/bench_router.py --json benchmarks/results/latest.json
"""

import tyro

from ndr.bench.commands import bench

if __name__ == "__main__":
    tyro.cli(bench)
