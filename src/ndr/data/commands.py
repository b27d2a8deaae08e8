"""`ndr data make | show | stats | export`."""

import sys
import time
from pathlib import Path
from typing import Annotated

import tyro

from ndr.data.split import Split
from ndr.data.store import bar, open_split, verify
from ndr.errors import Refusal
from ndr.tasks import get_task
from ndr.whole import PICTURES, check_target

TaskName = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(help="ctl-forward, ctl-backward, arithmetic, listops, or your own as file.py:Name.", metavar="TASK"),
]
SplitName = Annotated[
    str,
    tyro.conf.arg(help="train, iid, valid, test, or one beyond: depth-20, depth-9-30,length-100-200.", metavar="NAME"),
]
Variant = Annotated[
    str, tyro.conf.arg(help="clean follows the paper's words, paper its experiments.", metavar="{clean,paper}")
]
Count = Annotated[int | None, tyro.conf.arg(help="Samples in the split, if not its usual number.", metavar="N")]

Seed = Annotated[int, tyro.conf.arg(help="Another seed gives another split of the same kind.", metavar="SEED")]
Start = Annotated[int, tyro.conf.arg(help="The first sample to print.", metavar="N")]
Number = Annotated[int, tyro.conf.arg(help="How many samples to print.", metavar="N")]
Picture = Annotated[Path | None, tyro.conf.arg(help="PNG, PDF or SVG; TASK-SPLIT.png if not given.", metavar="FILE")]
Target = Annotated[
    Path, tyro.conf.arg(help="x.jsonl, x.csv, x.parquet, or a folder to which the split is added.", metavar="FILE")
]


def opened(task: str, split: str, variant: str, seed: int, count: int | None) -> Split:
    if seed < 0:
        raise Refusal(f"a seed is 0 or more, not {seed}")
    return open_split(get_task(task, variant), split, seed=seed, count=count, progress=sys.stderr.isatty())


def make(
    task: TaskName, split: SplitName = "train", variant: Variant = "clean", seed: Seed = 0, count: Count = None
) -> None:
    """Make a split, or check the one that is there, and say where it is kept.

    For example
      ndr data make listops --split train
      ndr data make ctl-backward --split depth-100
      NDR_DATA=/scratch/data ndr data make listops --split depth-30,length-200-400 --count 5000
    """
    start = time.perf_counter()
    found = opened(task, split, variant, seed, count)
    if not verify(found):
        raise Refusal(f"the split in {found.folder} is damaged; delete that folder and it will be made again")
    seconds = time.perf_counter() - start
    print(
        f"{found.task.name} ({found.task.variant}) {found.name}, seed {seed}: {len(found):,} samples in {seconds:.1f} s"
    )
    print(f"folder   {found.folder}\nchecksum {found.checksum}")


def show(
    task: TaskName,
    split: SplitName = "train",
    variant: Variant = "clean",
    seed: Seed = 0,
    count: Count = None,
    start: Start = 0,
    number: Number = 10,
) -> None:
    """Print samples: depth, answer, text.

    For example
      ndr data show listops --split test
      ndr data show arithmetic --split depth-12 --number 3
    """
    found = opened(task, split, variant, seed, count)
    if not 0 <= start < len(found) or number < 1:
        raise Refusal(
            f"{found.name} has samples 0 to {len(found) - 1}; --start lies among them and --number is 1 or more"
        )
    print("depth  answer  text")
    for index in range(start, min(start + number, len(found))):
        print(f"{found.depths[index]:5}  {found.answer(index):>6}  {found.text(index)}")


def stats(
    task: TaskName,
    split: SplitName = "train",
    variant: Variant = "clean",
    seed: Seed = 0,
    count: Count = None,
    out: Picture = None,
) -> None:
    """Print a table of depths, lengths and answers, and draw them as histograms.

    For example
      ndr data stats arithmetic --split train
      ndr data stats listops --split depth-1-30 --out depths.png
    """
    from rich.console import Console
    from rich.table import Table

    from ndr.data.stats import depth_stats, draw_histograms

    if out is not None:
        check_target(out, PICTURES)
    found = opened(task, split, variant, seed, count)
    picture = out or Path(f"{found.task.name}-{found.name.replace(',', '_').replace('/', '_')}.png")
    table = Table(
        "depth",
        "samples",
        "mean length",
        "shortest",
        "longest",
        "commonest answer",
        title=f"{found.task.name} {found.name}",
    )
    for row in depth_stats(found):
        table.add_row(
            *(str(row.depth), f"{row.count:,}", f"{row.mean_length:.1f}", str(row.shortest), str(row.longest)),
            f"{row.majority:.1%}",
        )
    Console().print(table)
    draw_histograms(found, picture)
    print(f"picture  {picture}")


def export(
    task: TaskName,
    out: Target,
    split: SplitName = "train",
    variant: Variant = "clean",
    seed: Seed = 0,
    count: Count = None,
) -> None:
    """Write a split as JSONL, CSV, Parquet (by the ending of --out), or as a Hugging Face datasets folder (no ending).

    For example
      ndr data export listops --split test --out file.jsonl
      ndr data export arithmetic --split train --out train.parquet
      ndr data export listops --split valid --out listops-dataset
    """
    from ndr.data.export import WRITERS, export_split

    if out.suffix and out.suffix not in WRITERS:
        raise Refusal(
            f'cannot write "{out.suffix}" files; use {", ".join(WRITERS)}, or no ending for a datasets folder'
        )
    if out.suffix:
        check_target(out)
    found = opened(task, split, variant, seed, count)
    with bar(f"writing {out}", len(found), sys.stderr.isatty()) as advance:
        export_split(found, out, advance)
    print(f"wrote {len(found):,} samples to {out}")
