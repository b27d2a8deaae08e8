"""`ndr demo`: from nothing to a trained router, and what it does, in one command."""

import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

RECIPE = "ctl-forward-crisp-small"
BAR = 40


def demo(*, out: Path = Path("runs/demo"), seed: int = 0, threads: int | None = None) -> None:
    """Train a router on table lookup with at most 5 functions, then ask it for up to 10 and beyond.

    Takes a few minutes on two CPU cores; stopped, the same command goes on where it was.

    For example

    ndr demo --seed 1 --out runs/another

    Args:
        out: the folder of the run.
        seed: decides weights, data order and dropout.
        threads: CPU threads.
    """
    import torch

    from ndr.data import open_split
    from ndr.train import draw_depths, load_recipe, open_network, sweep_split
    from ndr.train import train as train_run

    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    console.print(
        "Table lookup: [bold]101 d a b[/bold] means b(a(d(101))). The router sees 1 to 5 functions in training,"
    )
    console.print("is chosen on 6 to 8, and tested on 9 and 10 that it has never seen.\n")
    began = time.monotonic()
    result = train_run(load_recipe(RECIPE), seed, out)
    opened = open_network(out)
    seen = {
        "iid": "seen in training",
        "valid": "chosen on",
        "test": "tested on",
        "depth-20": "beyond",
        "depth-50": "beyond",
    }
    rows = [(each, note) for name, note in seen.items() for each in sweep_split(opened, open_split(opened.task, name))]

    console.print("\n[bold]accuracy by number of functions[/bold]")
    for each, note in rows:
        filled = round(BAR * each.accuracy)
        console.print(
            f"{each.depth:>3} {'█' * filled}{'░' * (BAR - filled)} {each.accuracy:.3f}  {note}", highlight=False
        )
    draw_depths([asdict(each) for each, _ in rows], out / "depths.png", "table lookup, forward", trained=5)

    text = "101 d a b c e f"
    pictures = [out / "depths.png", out / "curves.png", *draw_example(opened.network, text, out)]
    console.print(f"\n[bold]{text}[/bold] → {opened.network.answer([text])[0]} (right: {opened.task.evaluate(text)})")
    console.print("pictures: " + ", ".join(str(path) for path in pictures))
    test = result["best"]["test"]["accuracy"]
    minutes = (time.monotonic() - began) / 60
    console.print(f"test accuracy with 9 and 10 functions: [bold]{test:.4f}[/bold], {minutes:.1f} minutes in all\n")
    console.print("next:")
    for command in (
        f'ndr predict {out} "{text}"',
        f"ndr eval {out} --depths 20,50,100 --steps auto",
        f'ndr figure {out} "{text}" --kind gates --out gates.png',
        f"ndr explore {out}",
        "ndr recipes",
    ):
        console.print(f"  {command}", highlight=False)


def draw_example(network: object, text: str, out: Path) -> list[Path]:
    from ndr.models import NeuralDataRouter

    assert isinstance(network, NeuralDataRouter)
    trace = network.trace(text)
    paths = [out / "attention.png", out / "gates.png"]
    for path in paths:
        trace.plot(kind=path.stem, out=path)
    return paths
