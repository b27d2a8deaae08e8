"""Reads the locks: one entry for each dependency, its exact version, the hashes of its files and who asked for it."""

import re
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
DEVELOPMENT = (HERE / "development.txt", HERE / "torch.txt")


class Entry(NamedTuple):
    name: str
    version: str
    marker: str
    """on which machines it is installed; empty for all of them"""
    hashes: tuple[str, ...]
    wanted_by: tuple[str, ...]


def read(lock: Path) -> list[Entry]:
    text = re.sub(r"^#.*\n", "", lock.read_text(), flags=re.MULTILINE)
    return [entry(block) for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if block.strip()]


def entry(block: str) -> Entry:
    head = re.match(r"([a-z0-9-]+)==([\w.!+]+)(?: ; ([^\\\n]*))?", block)
    if head is None:
        raise ValueError(f'a lock holds name==version, not "{block.splitlines()[0]}"')
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
    wanted_by = re.findall(r"^    # (?:via|  ) ?([a-z0-9][a-z0-9-]*)", block, re.MULTILINE)
    return Entry(head[1], head[2], (head[3] or "").strip(), tuple(hashes), tuple(wanted_by))
