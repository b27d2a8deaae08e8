"""Writes a split for other programs: JSONL, CSV, Parquet, or a folder that Hugging Face `datasets` opens."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ndr.data.split import Split
from ndr.errors import Refusal, require
from ndr.tasks.task import Progress
from ndr.whole import fill_whole

ROWS_AT_ONCE = 10_000
# Bytes, far more than so many rows take.
ROOM_FOR_ARROW = 128 * 2**20
Row = dict[str, str | int]


def export_split(split: Split, out: Path, progress: Progress | None = None) -> Path:
    """Write `text`, `answer` and `depth` of every sample; the ending of `out` says how, no ending means a folder."""
    if not out.suffix:
        return export_folder(split, out, progress)
    if out.suffix not in WRITERS:
        raise Refusal(
            f'cannot write "{out.suffix}" files; use {", ".join(WRITERS)}, or no ending for a datasets folder'
        )
    fill_whole(out, lambda unfinished: WRITERS[out.suffix](split, unfinished, progress))
    return out


def rows(split: Split, progress: Progress | None) -> Iterator[list[Row]]:
    """The samples, a few thousand at a time."""
    for start in range(0, len(split), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(split))
        yield [
            {"text": split.text(index), "answer": split.answer(index), "depth": int(split.depths[index])}
            for index in range(start, stop)
        ]
        if progress:
            progress(stop - start)


def write_jsonl(split: Split, out: Path, progress: Progress | None) -> None:
    with out.open("w", encoding="utf-8") as file:
        for some in rows(split, progress):
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in some)


def write_csv(split: Split, out: Path, progress: Progress | None) -> None:
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("text", "answer", "depth"))
        writer.writeheader()
        for some in rows(split, progress):
            writer.writerows(some)


def write_parquet(split: Split, out: Path, progress: Progress | None) -> None:
    arrow: Any = require("pyarrow", "data")
    parquet: Any = require("pyarrow.parquet", "data")
    # Where memory runs out Arrow ends the whole process; numpy refuses in time.
    np.empty(ROOM_FOR_ARROW, dtype=np.uint8)
    schema = arrow.schema([("text", arrow.string()), ("answer", arrow.string()), ("depth", arrow.int32())])
    with parquet.ParquetWriter(out, schema) as writer:
        for some in rows(split, progress):
            writer.write_table(arrow.Table.from_pylist(some, schema=schema))


WRITERS: dict[str, Callable[[Split, Path, Progress | None], None]] = {
    ".jsonl": write_jsonl,
    ".csv": write_csv,
    ".parquet": write_parquet,
}


def export_folder(split: Split, out: Path, progress: Progress | None = None) -> Path:
    """A folder for `datasets.load_dataset(folder)`. Exporting further splits into it adds them."""
    try:
        (out / "data").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"cannot write {out}: {error.strerror}") from error
    name = re.sub(r"\W+", "_", split.name)
    target = out / "data" / f"{name}.parquet"
    fill_whole(target, lambda unfinished: write_parquet(split, unfinished, progress))
    # Not what a killed export left unfinished, whose name begins with a dot.
    present = sorted(path.stem for path in (out / "data").glob("[!.]*.parquet"))
    fill_whole(out / "README.md", lambda unfinished: describe_folder(split, present, unfinished))
    return out


def describe_folder(split: Split, present: list[str], out: Path) -> None:
    """The card that tells `datasets` which file is which split."""
    files = "\n".join(f"  - split: {name}\n    path: data/{name}.parquet" for name in present)
    features = "\n".join(f"  - name: {name}\n    dtype: {kind}" for name, kind in COLUMN_KINDS.items())
    task = split.task
    out.write_text(
        f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}\n"
        f"dataset_info:\n  features:\n{features}\n---\n\n"
        f"# {task.name} ({task.variant})\n\n"
        f"Made by `ndr`. Splits: {', '.join(present)}. Columns: `text`, `answer`, `depth` (operations on the longest "
        f"needed path).\nTokens: {' '.join(f'`{token}`' for token in task.tokens)}.\n",
        encoding="utf-8",
    )


COLUMN_KINDS = {"text": "string", "answer": "string", "depth": "int32"}
