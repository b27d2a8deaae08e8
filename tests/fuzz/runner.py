"""Gives a parser its inputs in a process of its own, and finds out whether it stumbled, hung or died."""

import os
import random
import resource
import shutil
import signal
import struct
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from ndr.errors import Refusal

# Seconds of processor time for one input; bytes of memory beyond what the process has at the start.
LONGEST = 10
ROOM = 2 * 2**30


@dataclass(frozen=True)
class Finding:
    """An input that was neither accepted nor refused; `--parser P --seed S --first N --count 1` gives it again."""

    parser: str
    number: int
    what: str


class Hang(BaseException):
    """One input takes too long."""


def fuzz(parser: str, seed: int, first: int, count: int) -> tuple[int, int, list[Finding]]:
    """How many inputs were accepted, how many refused, and the findings. A death ends the batch at the deadly input."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(parser, seed, first, count, writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    accepted = refused = 0
    findings: list[Finding] = []
    place = 0
    done = False
    while place < len(said):
        kind, number, size = struct.unpack_from("<BQI", said, place)
        text = said[place + 13 : place + 13 + size].decode(errors="replace")
        place += 13 + size
        if kind == 0:
            findings.append(Finding(parser, number, text))
        else:
            accepted, refused = map(int, text.split())
            done = True
    if not done:
        findings.append(Finding(parser, first, f"the process ended with {os.waitstatus_to_exitcode(status)}"))
    return accepted, refused, findings


def work(parser: str, seed: int, first: int, count: int, pipe: int) -> None:
    from .parsers import Parsers, refuse_long_work

    folder = fresh_folder()
    try:
        os.chdir(folder)
        parse = getattr(Parsers(folder), parser)
        refuse_long_work()
        limit_memory()
        signal.signal(signal.SIGPROF, too_long)
        accepted = refused = 0
        for number in range(first, first + count):
            signal.setitimer(signal.ITIMER_PROF, LONGEST)
            try:
                parse(random.Random(f"{seed} {parser} {number}"))
                accepted += 1
            except Refusal:
                refused += 1
            except BaseException as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                say(pipe, 0, number, f"{type(error).__name__}: {str(error)[:200]} ({last.filename}:{last.lineno})")
        signal.setitimer(signal.ITIMER_PROF, 0)
        say(pipe, 1, 0, f"{accepted} {refused}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fresh_folder() -> Path:
    """In memory where that is possible."""
    return Path(tempfile.mkdtemp(prefix="ndr-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))


def too_long(*_: object) -> None:
    raise Hang(f"more than {LONGEST} s")


def limit_memory() -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, now + ROOM))


def say(pipe: int, kind: int, number: int, text: str) -> None:
    said = text.encode(errors="replace")
    os.write(pipe, struct.pack("<BQI", kind, number, len(said)) + said)
