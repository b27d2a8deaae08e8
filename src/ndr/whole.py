"""Files that appear whole or not at all, and are read only if they are not too long."""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ndr.errors import Refusal, nearest

# A file that a killed process left behind bears a name that begins so, never the name that was to be written.
UNFINISHED = ".unfinished-"
# Far more than any record holds: what is longer is not read into memory.
LONGEST_RECORD = 64 * 2**20
PICTURES = (".png", ".svg", ".pdf")


def read_whole(path: Path, most: int = LONGEST_RECORD) -> bytes:
    """What a file holds; a ValueError if that is more than such a file ever holds, or if it is a pipe or device."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no file")
    if found.st_size > most:
        raise ValueError("it is far too long")
    with path.open("rb") as file:
        return file.read(found.st_size)


def read_text(path: Path, most: int = LONGEST_RECORD) -> str:
    return read_whole(path, most).decode()


def check_target(path: Path, endings: tuple[str, ...] = ()) -> Path:
    """The path, if a file can get this name; asked before the work whose outcome it is to hold."""
    suffix = path.suffix.lower()
    if endings and suffix not in endings:
        hint = nearest(suffix, endings)
        raise Refusal(f'cannot write "{path.name}"{hint}: its name must end in {", ".join(endings)}')
    if path.is_dir():
        raise Refusal(f'"{path}" is a folder; give the name of a file')
    if not path.parent.is_dir():
        raise Refusal(f'there is no folder "{path.parent}" to write "{path.name}" into')
    return path


def write_whole(path: Path, content: bytes) -> None:
    fill_whole(path, lambda unfinished: unfinished.write_bytes(content))


def fill_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a file beside `path`, then put it in its place in one move.

    A reader, a crash or a power cut sees the old file or the new one, never half of it.
    """
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(4)}-{path.name}")
    try:
        check_target(path)
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


@contextlib.contextmanager
def folder_beside(place: Path) -> Iterator[Path]:
    """An empty folder to fill and then to rename to `place`, removed if it is not; what killed makers left goes too."""
    prefix = f".{place.name}-"
    with contextlib.ExitStack() as until_done:
        # The lock on a folder ends with its maker. A new one is locked before anybody else may look for dead ones.
        with locked(place.parent):
            for left in place.parent.glob(f"{prefix}*"):
                with contextlib.suppress(OSError), locked(left, fcntl.LOCK_NB):
                    shutil.rmtree(left)
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place.parent))
            until_done.callback(shutil.rmtree, folder, ignore_errors=True)
            until_done.enter_context(locked(folder))
        yield folder


@contextlib.contextmanager
def locked(folder: Path, how: int = 0) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)


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
