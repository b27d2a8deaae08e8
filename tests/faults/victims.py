"""What is harmed: one command of each kind that writes files, small enough to be run hundreds of times."""

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file

from ndr.train import load_recipe
from ndr.train.checkpoint import checksum, load_checkpoint

TINY = [
    *("model.width=8", "model.steps=2", "model.test_steps=null", "model.update.hidden=8"),
    *("batch=16", "iterations=12", "evaluate_every=2"),
]
TRAIN = ["train", "recipe.json", "--seed", "7", "--out", "run", "--data", "data"]
TEXT = "101 d a b"


@dataclass(frozen=True)
class Victim:
    """A command, what its folder holds before, and what it should hold afterwards."""

    name: str
    words: list[str]
    products: tuple[str, ...]
    """final names, as globs; each is whole or absent at every moment"""
    harmed: tuple[str, ...]
    """files, as globs, that are damaged"""
    needs_run: bool = False
    exclusive: bool = False
    """whether a second process is refused"""
    forks: bool = False
    """whether it is a family of processes"""


VICTIMS = [
    Victim(
        "training",
        [*TRAIN, "--log", "none"],
        ("run/**/*",),
        ("run/*.json", "run/*.jsonl", "run/*.safetensors", "run/best/*", "data/*/*/*"),
        exclusive=True,
    ),
    Victim("training with TensorBoard", TRAIN, ("run/**/*",), ("run/*.safetensors", "run/best/*"), exclusive=True),
    Victim(
        "grid",
        ["grid", "grid.json", "--out", "runs", "--data", "data", "--workers", "1"],
        ("runs/**/*",),
        ("runs/*/*.json", "runs/*/*.safetensors", "runs/*.json"),
        exclusive=True,
        forks=True,
    ),
    Victim(
        "data making",
        ["data", "make", "listops", "--split", "depth-3-5", "--count", "20000"],
        ("data/listops*/*/*",),
        ("data/listops*/*/*",),
    ),
    *(
        Victim(
            f"export to {out}",
            ["data", "export", "ctl-forward", "--split", "iid", "--out", out],
            (out, f"{out}/**/*"),
            ("data/*/iid*/*",),
        )
        for out in ("iid.jsonl", "iid.csv", "iid.parquet", "dataset")
    ),
    Victim(
        "export of the explorer",
        ["explore", "run", "--export", "view.html", "--text", TEXT],
        ("view.html",),
        ("run/recipe.json", "run/best/*"),
        needs_run=True,
    ),
    *(
        Victim(
            f"figure as {out}",
            ["figure", "run", TEXT, "--kind", kind, "--out", out],
            (out,),
            ("run/recipe.json", "run/best/*"),
            needs_run=True,
        )
        for kind, out in (("gates", "gates.png"), ("attention", "attention.svg"), ("flow", "flow.gif"))
    ),
    Victim(
        "figure of a split",
        ["data", "stats", "ctl-forward", "--split", "iid", "--out", "iid.png"],
        ("iid.png",),
        ("data/*/iid*/*",),
    ),
    Victim(
        "evaluation",
        ["eval", "run", "--split", "iid", "--data", "data", "--csv", "iid.csv", "--plot", "iid.png"],
        ("iid.csv", "iid.png"),
        ("run/recipe.json", "run/best/*", "data/*/iid*/*"),
        needs_run=True,
    ),
]


def lay_out(folder: Path, ready: Path | None = None, with_run: bool = False) -> None:
    """A folder in which every victim can run; `ready` is one whose data and run have been made."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe("ctl-forward-ndr-small", TINY)
    (folder / "recipe.json").write_text(recipe.model_dump_json())
    small = {key: json.loads(value) for key, _, value in (each.partition("=") for each in TINY)}
    (folder / "grid.json").write_text(json.dumps({"seeds": 2, "set": small, "runs": [{"recipe": recipe.name}]}))
    if ready is not None:
        shutil.copytree(ready / "data", folder / "data", dirs_exist_ok=True)
        if with_run:
            shutil.copytree(ready / "run", folder / "run", dirs_exist_ok=True)


def files_of(folder: Path, globs: tuple[str, ...]) -> list[Path]:
    """The files under final names; what begins with a dot was never finished, a lock holds nothing."""
    found = {path for each in globs for path in folder.glob(each) if path.is_file()}
    shown = [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    return sorted(path for path in shown if path.name != "lock" and "tensorboard" not in path.parts)


def outcome(victim: Victim, folder: Path) -> dict[str, str]:
    """A digest of everything that the command is for, without the seconds it took."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(content_of(path)).hexdigest()
        for path in files_of(folder, victim.products)
        if path.name not in ("versions.json", "previous.safetensors", "next.safetensors")
    }


def content_of(path: Path) -> bytes:
    """What a file says: flips in the padding of a header, or blanks, change nothing."""
    if path.suffix == ".safetensors":
        try:
            return checksum(load_file(path)).encode()
        except SafetensorError:
            return b"unreadable"
    if path.suffix == ".npy":
        return np.load(path).tobytes()
    if path.suffix in (".json", ".jsonl"):
        return json.dumps([timeless(json.loads(part)) for part in records(path)], sort_keys=True).encode()
    return path.read_bytes()


def records(path: Path) -> list[str]:
    text = path.read_text()
    return text.splitlines() if path.suffix == ".jsonl" else [text]


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: timeless(each)
            for key, each in value.items()
            if key not in ("seconds", "processor_seconds", "checksum")
        }
    return [timeless(each) for each in value] if isinstance(value, list) else value


def half_written(victim: Victim, folder: Path, spared: set[Path] = frozenset()) -> list[str]:
    """The files under final names that are not whole; `spared` are those that were damaged on purpose."""
    return [
        str(path.relative_to(folder))
        for path in files_of(folder, victim.products)
        if path not in spared and not is_whole(path)
    ]


def is_whole(path: Path) -> bool:
    try:
        content = path.read_bytes()
        check = WHOLE.get(path.suffix)
        return bool(content) and (check is None or check(path, content))
    except (ValueError, OSError, EOFError):
        return False


def loads(text: str) -> bool:
    json.loads(text)
    return True


WHOLE: dict[str, Callable[[Path, bytes], bool]] = {
    ".json": lambda path, content: loads(content.decode()),
    ".jsonl": lambda path, content: content.endswith(b"\n") and all(map(loads, content.decode().splitlines())),
    ".csv": lambda path, content: (
        content.endswith(b"\n") and len({len(row) for row in csv.reader(content.decode().splitlines())}) == 1
    ),
    ".safetensors": lambda path, content: path.name == "model.safetensors" or load_checkpoint(path) is not None,
    ".npy": lambda path, content: np.load(path, mmap_mode="r") is not None and len(list(path.parent.glob("*"))) == 5,
    ".parquet": lambda path, content: content.startswith(b"PAR1") and content.endswith(b"PAR1"),
    ".png": lambda path, content: content.endswith(b"IEND\xaeB`\x82"),
    ".gif": lambda path, content: content.endswith(b";"),
    ".svg": lambda path, content: content.rstrip().endswith(b"</svg>"),
    ".html": lambda path, content: content.rstrip().endswith(b"</html>"),
}
