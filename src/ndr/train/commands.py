"""`ndr train`, `eval`, `predict` and `recipes`."""

import csv as csv_format
import io
import json as json_format
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, UseAppendAction

from ndr.errors import Refusal

if TYPE_CHECKING:
    from ndr.train.sweep import DepthScore, Steps

MOST_THREADS = 1_024
MOST_STEPS = 1_000_000
Name = Annotated[str, tyro.conf.arg(metavar="RUN_OR_NAME")]


def train(
    recipe: Positional[Annotated[str, tyro.conf.arg(metavar="RECIPE")]],
    /,
    *,
    set: UseAppendAction[tuple[str, ...]] = (),
    task: str | None = None,
    seed: int = 0,
    out: Path | None = None,
    data: Path | None = None,
    devices: int = 1,
    nodes: int = 1,
    accelerator: str = "auto",
    threads: int | None = None,
    log: UseAppendAction[tuple[str, ...]] = (),
) -> None:
    """Train one network; run the same command again to continue it.

    For example

    ndr train ctl-forward-ndr-small --seed 1

    ndr train arithmetic-ndr-small --set optimiser.learning_rate=1e-3 --set model.width=64 --out runs/narrow

    Args:
        recipe: a shipped recipe (ndr recipes lists them) or a JSON or TOML file.
        set: change a setting, as key=value; can be given several times.
        task: train on a task of your own, as file.py:Name or package.module:Name.
        seed: decides weights, data order and dropout.
        out: the folder of the run; runs/RECIPE-SEED when left out.
        data: where splits are kept; NDR_DATA or the user's cache when left out.
        devices: processes or GPUs on this machine.
        nodes: machines (start the command on each, for example with torchrun).
        accelerator: cpu, cuda, mps or auto.
        threads: CPU threads of each process.
        log: tensorboard (when left out), wandb, or none; can be given several times.
    """
    from ndr.tasks import get_task
    from ndr.train.loop import train as train_run
    from ndr.train.recipe import load_recipe

    chosen = load_recipe(recipe, list(set))
    own = None if task is None else get_task(task)
    if own is not None:
        chosen = chosen.on_task(own)
    use_threads(threads)
    folder = out or Path("runs") / f"{chosen.name}{'' if own is None else '-' + own.name}-seed{seed}"
    loggers = tuple(name for name in log or ("tensorboard",) if name != "none")
    result = train_run(
        chosen,
        seed,
        folder,
        task=own,
        data=data,
        devices=devices,
        nodes=nodes,
        accelerator=accelerator,
        loggers=loggers,
    )
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        print_result(result, folder)


def use_threads(threads: int | None) -> None:
    import torch

    if threads is None:
        return
    if not 1 <= threads <= MOST_THREADS:
        raise Refusal(f"--threads lies between 1 and {MOST_THREADS:,}, not {threads}")
    torch.set_num_threads(threads)


def print_result(result: dict[str, Any], folder: Path) -> None:
    table = Table(title=f"{result['recipe']['name']}, seed {result['seed']}", title_justify="left")
    table.add_column("split")
    table.add_column("accuracy", justify="right")
    table.add_column("by depth")
    for name, score in result["best"].items():
        depths = "  ".join(f"{depth}: {each['accuracy']:.3f}" for depth, each in score["depths"].items())
        table.add_row(name, f"{score['accuracy']:.4f}", depths)
    console = Console()
    console.print(table)
    minutes, best = result["seconds"] / 60, result["best_iteration"]
    console.print(f"best at iteration {best} of {result['iterations']}, {minutes:.1f} minutes; kept in {folder}")


def recipes(name: Positional[Annotated[str | None, tyro.conf.arg(metavar="NAME")]] = None, /) -> None:
    """List the shipped recipes, or show one as JSON (a file that ndr train takes).

    For example

    ndr recipes

    ndr recipes ctl-forward-ndr-small > mine.json

    Args:
        name: the recipe to show.
    """
    from ndr.train.recipe import load_recipe, names

    if name is not None:
        print(load_recipe(name).model_dump_json(indent=2))
        return
    for each in names():
        print(each)


def evaluate(
    run: Positional[Name],
    /,
    *,
    set: UseAppendAction[tuple[str, ...]] = (),
    snap: bool = False,
    split: str = "test",
    depths: str | None = None,
    steps: str | None = None,
    count: int | None = None,
    json: bool = False,
    csv: Path | None = None,
    plot: Path | None = None,
    data: Path | None = None,
    task: str | None = None,
    threads: int | None = None,
) -> None:
    """Accuracy of a trained network on a split, or at any depths.

    For example

    ndr eval runs/demo --split iid

    ndr eval ndr-ctl-forward-small --depths 10,20,50,100 --steps auto --plot far.png

    ndr eval runs/ctl-forward-ndr-small-seed0 --depths 20,50,100 --steps auto --snap

    ndr eval ndr-listops-small --set model.update.squash=crisp --set model.update.stretch=0.3

    Args:
        run: the folder of a run or of a saved network, or the name of a shipped one.
        set: change a setting of the network but not its weights, as model.key=value; can be given several times.
        snap: make gates and matches as crisp as they can be without losing a problem of the valid split.
        split: train, iid, valid, test, or one beyond such as depth-20.
        depths: evaluate at these depths instead, 1,000 new samples each: 10,20,50 or 6-8.
        steps: a number, or auto: until nothing changes any more.
        count: samples for each depth.
        json: print one JSON object that maps each depth to accuracy, count and steps.
        csv: also write the table to this file.
        plot: also draw accuracy against depth into this file.
        data: where splits are kept.
        task: the task, if it is one of your own: file.py:Name or package.module:Name.
        threads: CPU threads.
    """
    from ndr.data import open_split
    from ndr.data.store import bar
    from ndr.tasks import get_task
    from ndr.train.curves import draw_depths
    from ndr.train.open import open_network, with_settings
    from ndr.train.snapping import snap as snap_network
    from ndr.train.sweep import read_depths, sweep_depths, sweep_split
    from ndr.whole import PICTURES, check_target, write_whole

    use_threads(threads)
    for target, endings in ((csv, ()), (plot, PICTURES)):
        if target is not None:
            check_target(target, endings)
    wanted = read_steps(steps)
    listed = None if depths is None else read_depths(depths)
    watched = sys.stderr.isatty()
    opened = open_network(run, None if task is None else get_task(task))
    if set:
        opened = with_settings(opened, set)
    for difference in opened.differences:
        print(f"note: this run was made with another version: {difference}", file=sys.stderr)
    if snap:
        opened, chosen = snap_network(opened, data, progress=watched)
        print(f"snapped: {' '.join(chosen) or 'nothing, as valid bears none of it'}", file=sys.stderr)
    if listed is None:
        given = open_split(opened.task, split, seed=opened.data_seed, folder=data, count=count, progress=True)
        with bar(f"answering {split}", len(given), watched) as advance:
            scores = sweep_split(opened, given, wanted, advance)
    else:
        scores = []
        number = 1_000 if count is None else count
        for score in sweep_depths(opened, listed, wanted, number, data, progress=watched):
            scores.append(score)
            print(f"depth {score.depth}: {score.accuracy:.4f}", file=sys.stderr)
    if json:
        print(
            json_format.dumps({s.depth: {"accuracy": s.accuracy, "count": s.count, "steps": s.steps} for s in scores})
        )
    else:
        Console().print(score_table(scores, f"{opened.name} on {opened.task.name}"))
    if csv is not None:
        write_whole(csv, score_csv(scores).encode())
    if plot is not None:
        draw_depths([asdict(score) for score in scores], plot, f"{opened.name} on {opened.task.name}", trained=5)


def read_steps(text: str | None) -> "Steps":
    if text is None:
        return None
    if text == "auto":
        return "auto"
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Refusal(f'--steps takes a number between 1 and {MOST_STEPS:,}, or auto, not "{text}"')
    steps = int(text)
    if not 1 <= steps <= MOST_STEPS:
        raise Refusal(f"--steps lies between 1 and {MOST_STEPS:,}, not {steps}")
    return steps


def score_table(scores: "list[DepthScore]", title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("depth", "accuracy", "95 % interval", "samples", "steps"):
        table.add_column(column, justify="right")
    for each in scores:
        interval = f"{each.low:.4f} to {each.high:.4f}"
        table.add_row(str(each.depth), f"{each.accuracy:.4f}", interval, str(each.count), str(each.steps))
    right = sum(each.accuracy * each.count for each in scores)
    count = sum(each.count for each in scores)
    table.add_section()
    table.add_row("all", f"{right / count:.4f}", "", str(count), "")
    return table


def score_csv(scores: "list[DepthScore]") -> str:
    text = io.StringIO()
    writer = csv_format.writer(text, lineterminator="\n")
    writer.writerow(asdict(scores[0]))
    writer.writerows(asdict(score).values() for score in scores)
    return text.getvalue()


def predict(
    run: Positional[Name],
    texts: Positional[tuple[str, ...]] = (),
    /,
    *,
    steps: str | None = None,
    task: str | None = None,
    threads: int | None = None,
) -> None:
    """What a trained network answers: one line out for each text, or for each line of the input.

    A malformed text gives "?" and a sentence on stderr; the exit code is then 1.

    For example

    ndr predict ndr-listops-small "[MED 4 8 5 [MAX 8 4 9 ] ]"

    ndr predict runs/demo < questions.txt

    ndr predict ndr-listops-crisp-small --steps auto < deep.txt

    Args:
        run: the folder of a run or of a saved network, or the name of a shipped one.
        texts: what to answer; standard input when left out.
        steps: how often the layer is applied: a number, or auto (until nothing changes any more, which long problems
            need); the network's own number when left out.
        task: the task, if it is one of your own: file.py:Name or package.module:Name.
        threads: CPU threads.
    """
    from ndr.tasks import get_task
    from ndr.train.open import open_network
    from ndr.train.predict import lines_of, predict_lines

    use_threads(threads)
    wanted = read_steps(steps)
    opened = open_network(run, None if task is None else get_task(task))
    if isinstance(sys.stdin, io.TextIOWrapper):
        # What is no UTF-8 is a malformed line like others.
        sys.stdin.reconfigure(errors="replace")
    lines = texts or lines_of(sys.stdin)
    # A person who types wants each answer at once; a file wants large batches.
    at_once = 1 if not texts and sys.stdin.isatty() else 4_096
    bad = 0
    for number, answer in enumerate(predict_lines(opened, lines, steps=wanted, at_once=at_once), start=1):
        if isinstance(answer, Refusal):
            bad += 1
            print(f"line {number}: {answer}", file=sys.stderr)
        print("?" if isinstance(answer, Refusal) else answer, flush=at_once == 1)
    if bad:
        raise SystemExit(1)
