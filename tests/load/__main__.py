"""python -m tests.load --clients 64 --seconds 60: the explorer under load from another process."""

import argparse
import tempfile
from pathlib import Path

from ..tally import put
from .explorer import press
from .network import save_small_network


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--page", action="store_true", help="put the figures into docs/reliability.md")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="ndr-load-") as folder:
        network = Path(folder) / "network"
        save_small_network(network)
        report = press(network, chosen.clients, chosen.seconds)
    print(report.text())
    for problem in report.problems:
        print(f"PROBLEM: {problem}")
    if chosen.page:
        put("load", report.text())
    raise SystemExit(bool(report.problems))


if __name__ == "__main__":
    main()
