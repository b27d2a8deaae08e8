"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ndr.errors import Refusal

# A file that a killed process left behind bears a name that begins so, never the name that was to be written.
UNFINISHED = ".unfinished-"


def write_whole(path: Path, content: bytes) -> None:
    fill_whole(path, lambda unfinished: unfinished.write_bytes(content))


def fill_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a file beside `path`, then put it in its place in one move.

    A reader, a crash or a power cut sees the old file or the new one, never half of it.
    """
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(4)}-{path.name}")
    try:
        try:
            fill(unfinished)
            sync(unfinished)
            unfinished.replace(path)
            sync(path.parent)
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise Refusal(
            f"{path} could not be written ({error.strerror or error}); "
            "make room or mend the rights, then run the command again"
        ) from error


def sync(path: Path) -> None:
    """Make a file, or what was renamed in a folder, outlast a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what killed processes left unfinished; only for whoever holds the folder alone."""
    for left in folder.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            left.unlink()
