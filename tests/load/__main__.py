"""python -m tests.load --clients 64 --seconds 60: the explorer under load from another process."""

import argparse
import tempfile
from pathlib import Path

from .explorer import press


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--seconds", type=float, default=60)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="ndr-load-") as folder:
        network = Path(folder) / "network"
        save_small_network(network)
        report = press(network, chosen.clients, chosen.seconds)
    print(report.text())
    for problem in report.problems:
        print(f"PROBLEM: {problem}")
    raise SystemExit(bool(report.problems))


def save_small_network(folder: Path) -> None:
    import torch

    from ndr.models import CopyGated, Geometric, NeuralDataRouter, RouterSettings
    from ndr.tasks import get_task

    task = get_task("ctl-forward")
    torch.manual_seed(7)
    words = {"task": task.name, "tokens": task.tokens, "answers": task.answers}
    parts = {"width": 32, "steps": 8, "attention": Geometric(heads=4), "update": CopyGated(hidden=32)}
    NeuralDataRouter(RouterSettings(**words, **parts)).save_pretrained(folder)


if __name__ == "__main__":
    main()
