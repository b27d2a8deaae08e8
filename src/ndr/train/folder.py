"""A run's folder: what lies where, who holds it, and what it was made with."""

import contextlib
import fcntl
import os
import platform
import socket
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from ndr import __version__
from ndr.errors import Refusal
from ndr.train.checkpoint import load_checkpoint, read_json, read_sealed, save_checkpoint, seal, write_json
from ndr.train.recipe import Recipe, validate
from ndr.whole import sweep


class RunFolder:
    """`recipe.json`, `versions.json`, `metrics.jsonl`, `last` and `previous` checkpoint, `best/`, `result.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.best = path / "best"
        self.metrics = path / "metrics.jsonl"
        self.curves = path / "curves.png"
        self.result_file = path / "result.json"
        self.next = path / "next.safetensors"
        self.last = path / "last.safetensors"
        self.previous = path / "previous.safetensors"

    def begin(self, recipe: Recipe, seed: int) -> None:
        """Write down what is to be run, or check that the folder already holds this very run."""
        for folder in (self.path, self.best):
            sweep(folder)
        wanted = {"recipe": recipe.model_dump(mode="json"), "seed": seed}
        file = self.path / "recipe.json"
        if file.exists():
            found = filled_in(read_sealed(file))
            if found != wanted:
                raise Refusal(
                    f"{self.path} holds another run ({difference(found, wanted)}); choose another --out, "
                    f"or remove {file} if nothing but that file is damaged"
                )
            return
        write_json(self.path / "versions.json", versions())
        write_json(file, seal(wanted))

    def is_under_way(self) -> bool:
        """Whether there is something to go on from, or nothing left to do."""
        return self.last.is_file() or self.result_file.is_file()

    def recipe(self) -> tuple[Recipe, int]:
        data = read_sealed(self.path / "recipe.json")
        try:
            return validate(data["recipe"]), int(data["seed"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            file = self.path / "recipe.json"
            why = f" ({error})" if isinstance(error, Refusal) else ""
            advice = f"{file} is damaged{why}; remove {file} and run the training again, which writes it anew"
            raise Refusal(advice) from error

    def result(self) -> dict[str, Any] | None:
        if not self.result_file.exists():
            return None
        found = read_sealed(self.result_file)
        recipe = self.path / "recipe.json"
        begun = read_sealed(recipe) if recipe.exists() else found
        if any(begun.get(key, found.get(key)) != found.get(key) for key in ("recipe", "seed")):
            raise Refusal(
                f"{self.result_file} belongs to another run; remove {self.result_file} and run the training again"
            )
        return found

    def finish(self, result: dict[str, Any]) -> None:
        write_json(self.result_file, seal(result))

    def mark(self) -> str | None:
        """What tells this run's checkpoints from those of every other run; runs of earlier versions have none."""
        found = read_json(self.path / "recipe.json").get("checksum")
        return None if found is None else str(found)

    def save(self, tensors: dict[str, Any], state: dict[str, Any]) -> None:
        """A new last checkpoint; the one before is kept, in case this one is damaged later.

        The new one is whole before an old one is moved, so a whole one is there at every moment.
        """
        save_checkpoint(self.next, tensors, {**state, "run": self.mark()})
        if self.last.exists():
            self.last.replace(self.previous)
        self.next.replace(self.last)

    def restore(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The newest checkpoint that is whole."""
        there = [path for path in (self.next, self.last, self.previous) if path.exists()]
        mark = self.mark()
        for path in there:
            found = load_checkpoint(path)
            if found is None:
                print(f"note: {path} is damaged; passed over for one before", file=sys.stderr)
                continue
            if mark is not None and found[1].get("run") not in (None, mark):
                raise Refusal(f"{path} belongs to another run; move or remove {path} and run the same command again")
            return found
        if there:
            print("note: no checkpoint is whole; the run begins again", file=sys.stderr)
        return None

    def differences(self) -> list[str]:
        """What was another version when the run was made."""
        file = self.path / "versions.json"
        try:
            then = read_json(file) if file.exists() else {}
        except Refusal:
            then = None
        if not isinstance(then, dict):
            return ["unknown, its versions.json is damaged"]
        now = versions()
        return [
            f"{name} {then[name]} then, {now.get(name)} now"
            for name in ("ndr", "torch")
            if name in then and then[name] != now.get(name)
        ]


def filled_in(found: dict[str, Any]) -> dict[str, Any]:
    """With the settings that did not exist when the run was begun, as its recipe leaves them out."""
    try:
        return {**found, "recipe": validate(found["recipe"]).model_dump(mode="json")}
    except (KeyError, Refusal):
        return found


class InUse(Refusal):
    """Another process works on the run."""


class Holding:
    """Only one process may work on a run: the second is refused and told who holds it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "lock"

    def __enter__(self) -> Self:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.handle = self.file.open("a+")
        except OSError as error:
            raise Refusal(f"{self.file.parent} cannot be used as a run folder: {error.strerror}") from error
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.handle.seek(0)
            holder = self.handle.read().strip() or "another process"
            self.handle.close()
            raise InUse(f"{self.file.parent} is in use by {holder}; wait for it or stop it") from error
        try:
            self.handle.truncate(0)
            self.handle.write(
                f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
            )
            self.handle.flush()
        except OSError as error:
            with contextlib.suppress(OSError):
                self.handle.close()
            raise Refusal(f"{self.file} could not be written ({error.strerror}); make room and try again") from error
        return self

    def __exit__(self, *_: object) -> None:
        # The lock ends with the handle; the name in it is only for others to read.
        with contextlib.suppress(OSError):
            self.handle.truncate(0)
        with contextlib.suppress(OSError):
            self.handle.close()


def versions() -> dict[str, str]:
    """What a result depends on besides its recipe and seed."""
    found = {"ndr": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in ("torch", "numpy", "lightning-fabric"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def difference(found: Any, wanted: Any, where: str = "") -> str:
    """The first place where two nested records differ, in words."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}):
            if found.get(key) != wanted.get(key):
                return difference(found.get(key), wanted.get(key), f"{where}.{key}".lstrip("."))
    return f"{where.removeprefix('recipe.')} is {found} there, {wanted} here"
