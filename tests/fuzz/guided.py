"""Inputs chosen by coverage: Atheris (libFuzzer) supplies the chance and keeps what reaches new places of `ndr`."""

import os
import random
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

from ndr.errors import Refusal

from .runner import LONGEST, fresh_folder

ROOT = Path(__file__).parents[2]
LONGEST_INPUT = 2_048
# As the other engine allows: seconds for one input, and mebibytes for the process.
LIMITS = (f"-timeout={LONGEST}", "-rss_limit_mb=2600")


class Chance(random.Random):
    """Draws from a fuzzer's bytes, so that the fuzzer makes every choice; what they do not cover follows from them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(zlib.crc32(data))
        self.data, self.place = data, 0

    def getrandbits(self, count: int) -> int:
        size = -(-count // 8)
        taken = self.data[self.place : self.place + size]
        self.place += size
        if len(taken) < size:
            return super().getrandbits(count)
        return int.from_bytes(taken, "little") % 2**count

    def random(self) -> float:
        return self.getrandbits(16) / 2**16


def guide(parser: str, seed: int, count: int) -> tuple[int, int, str | None]:
    """How many inputs were tried, how many places of the code they reached, and what ended it too early."""
    words = [sys.executable, "-m", "tests.fuzz.guided", parser, str(seed), str(count)]
    ended = subprocess.run(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    found = re.findall(r"^#(\d+)\s.*?cov: (\d+)", ended.stdout, re.MULTILINE)
    tried, reached = map(int, found[-1]) if found else (0, 0)
    if ended.returncode == 0 and tried >= count:
        return tried, reached, None
    said = [line for line in ended.stdout.splitlines() if line and not line.startswith(("#", "INFO", "WARNING"))]
    return tried, reached, " ".join(said[-20:])[:1_000] or f"it ended with {ended.returncode}"


def main(parser: str, seed: str, count: str) -> None:
    import atheris

    with atheris.instrument_imports(include=["ndr"]):
        from .parsers import Parsers, refuse_long_work

    folder = fresh_folder()
    os.chdir(folder)
    parse = getattr(Parsers(folder), parser)
    refuse_long_work()

    def try_one(data: bytes) -> None:
        try:
            parse(Chance(data))
        except Refusal:
            return

    # The fuzzer ends the process itself, so somebody else has to tidy up.
    if os.fork():
        _, status = os.wait()
        shutil.rmtree(folder, ignore_errors=True)
        raise SystemExit(os.waitstatus_to_exitcode(status) & 255)
    options = [f"-runs={count}", f"-seed={int(seed) + 1}", f"-max_len={LONGEST_INPUT}", *LIMITS]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/"], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
