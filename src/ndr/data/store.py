"""Splits on disk: made once, whole or not at all, and opened as they were made or not at all."""

import hashlib
import inspect
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndr.data.split import Split
from ndr.errors import Refusal
from ndr.tasks import SplitSpec, Task
from ndr.tasks.stream import key_of
from ndr.tasks.task import Columns, Progress, shuffled
from ndr.whole import folder_beside, read_text, sync

# Raised whenever the same spec and seed give other bytes.
FORMAT = 1
MOST_SAMPLES = 50_000_000
ARRAYS = ("tokens", "offsets", "answers", "depths")
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][iu][1248])', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n",
    re.DOTALL,
)


def data_folder() -> Path:
    """Where splits are kept: $NDR_DATA, or the user's cache."""
    if chosen := os.environ.get("NDR_DATA"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ndr" / "data"


def open_split(
    task: Task,
    name: str,
    *,
    seed: int = 0,
    count: int | None = None,
    folder: Path | str | None = None,
    progress: bool = False,
) -> Split:
    """A split of a task, made if it is missing. Same task, name, count and seed: same bytes, everywhere."""
    if name.startswith("file:"):
        return read_file(task, name.removeprefix("file:"))
    if count is not None and count > MOST_SAMPLES:
        raise Refusal(f"a split has at most {MOST_SAMPLES:,} samples, not {count:,}")
    spec = task.describe(name, count)
    about = described(task, spec, seed)
    place = Path(folder or data_folder()) / place_of(task, name, seed, about)
    if not (place / "about.json").is_file():
        make(task, name, spec, seed, about, place, progress)
    return load(task, name, seed, place, about)


def described(task: Task, spec: SplitSpec, seed: int) -> dict[str, Any]:
    """Everything that the bytes depend on."""
    return {"format": FORMAT, "task": identity(task), "split": asdict(spec), "seed": seed}


def place_of(task: Task, name: str, seed: int, about: dict[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return Path(f"{file_name(task.name)}-{task.variant}", f"{file_name(name)}-seed{seed}-{key[:12]}")


def read_file(task: Task, path: str) -> Split:
    """A public ListOps file in the place of a split of our own."""
    from ndr.data.public import read_listops

    if task.name != "listops":
        raise Refusal(f"only listops reads its samples from a file, not {task.name}")
    return read_listops(path)


def identity(task: Task) -> dict[str, Any]:
    """What distinguishes this task from every other; for a user's own task also its code."""
    kind = type(task)
    settings: dict[str, Any] = asdict(task) if is_dataclass(task) and not isinstance(task, type) else {}
    found = {"class": kind.__qualname__, "name": task.name, "variant": task.variant, "settings": settings}
    if not kind.__module__.startswith("ndr.tasks."):
        code = "".join(
            code_of(one) for one in kind.__mro__ if not one.__module__.startswith(("ndr.tasks.", "builtins"))
        )
        found |= {"tokens": task.tokens, "answers": task.answers, "code": hashlib.sha256(code.encode()).hexdigest()}
    return found


def code_of(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        # Typed in at a prompt: there is no file to read.
        return ""


def file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)


def draw(task: Task, name: str, spec: SplitSpec, seed: int, progress: Progress | None = None) -> Columns:
    """The samples of a split, in an order that does not follow depth."""
    key = key_of(identity(task), name, seed)
    return shuffled(task.fill(spec, key, progress), key)


def make(task: Task, name: str, spec: SplitSpec, seed: int, about: dict[str, Any], place: Path, progress: bool) -> None:
    """Write everything into a folder of its own, then give it its name in one step."""
    with bar(f"{task.name} {name}", len(spec), progress) as advance:
        columns = draw(task, name, spec, seed, advance)
    offsets = np.concatenate([[0], np.cumsum(columns.lengths, dtype=np.int64)])
    arrays = dict(zip(ARRAYS, (columns.tokens, offsets, columns.answers, columns.depths), strict=True))
    about = {**about, "count": len(columns.answers), "checksum": checksum(arrays)}
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with folder_beside(place) as unfinished:
            for title, array in arrays.items():
                with (unfinished / f"{title}.npy").open("wb") as file:
                    np.save(file, array)
                    flush(file.fileno())
            with (unfinished / "about.json").open("w") as file:
                json.dump(about, file, indent=1)
                file.flush()
                flush(file.fileno())
            unfinished.chmod(0o755)
            sync(unfinished)
            try:
                unfinished.rename(place)
            except OSError:
                # Someone else made the same split meanwhile; theirs holds the same bytes.
                if not (place / "about.json").is_file():
                    raise
            sync(place.parent)
    except OSError as error:
        raise Refusal(
            f"cannot write {place}: {error.strerror or error}; make room or set NDR_DATA to another folder"
        ) from error


def flush(descriptor: int) -> None:
    os.fsync(descriptor)


def checksum(arrays: dict[str, np.ndarray]) -> str:
    """Over every array in little-endian order of bytes."""
    digest = hashlib.sha256()
    for title in ARRAYS:
        array = np.ascontiguousarray(arrays[title])
        digest.update(f"{title} {array.dtype.str} {len(array)}\n".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data.cast("B"))
    return digest.hexdigest()


def load(task: Task, name: str, seed: int, place: Path, about: dict[str, Any]) -> Split:
    """Open a split and compare it, byte by byte, with what it was made from and as."""
    try:
        found = json.loads(read_text(place / "about.json"))
        expected = {**json.loads(json.dumps(about)), "count": found["count"], "checksum": found["checksum"]}
        arrays = {title: open_array(place / f"{title}.npy") for title in ARRAYS}
        if found != expected:
            raise ValueError("it holds another split")
        if not fits(task, arrays, found["count"]) or checksum(arrays) != found["checksum"]:
            raise ValueError("its checksum is another")
    except (OSError, ValueError, TypeError, KeyError, EOFError, RecursionError) as error:
        raise Refusal(f"the split in {place} is damaged ({error}); delete {place} and it will be made again") from error
    flat, offsets, answers, depths = (arrays[title] for title in ARRAYS)
    return Split(task, name, seed, found["checksum"], flat, offsets, answers, depths, place)


def open_array(path: Path) -> np.ndarray:
    """A list of whole numbers as np.save writes it, memory-mapped.

    The header is matched, not evaluated as numpy would do, and what it claims must be there.
    """
    with path.open("rb") as file:
        found = HEADER.match(file.read(256))
    if found is None:
        raise ValueError(f"{path.name} is no list of whole numbers")
    kind, count = np.dtype(found[1].decode()), int(found[2])
    if path.stat().st_size != found.end() + count * kind.itemsize:
        raise ValueError(f"{path.name} is too short or too long")
    return np.asarray(np.memmap(path, kind, "r", offset=found.end(), shape=(count,)))


def fits(task: Task, arrays: dict[str, np.ndarray], count: int) -> bool:
    """Whether every number is one that the task knows, and every sample lies inside the tokens."""
    tokens, offsets, answers, depths = (arrays[title] for title in ARRAYS)
    whole = len(answers) == len(depths) == len(offsets) - 1 == count and count > 0
    whole = whole and int(offsets[0]) == 0 and int(offsets[-1]) == len(tokens) and bool((np.diff(offsets) >= 0).all())
    known = ((tokens, task.tokens), (answers, task.answers))
    return whole and all(
        0 <= int(numbers.min(initial=0)) <= int(numbers.max(initial=0)) < len(of) for numbers, of in known
    )


def verify(split: Split) -> bool:
    """Read everything and compare with the checksum it was made with."""
    arrays = {"tokens": split.flat, "offsets": split.offsets, "answers": split.answers, "depths": split.depths}
    return checksum(arrays) == split.checksum


@contextmanager
def bar(title: str, total: int, show: bool) -> Iterator[Progress | None]:
    """A progress bar, where one is wanted."""
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as drawn:
        line = drawn.add_task(title, total=total)
        yield lambda done: drawn.advance(line, done)
