"""Reads the public ListOps files, so that a model can be evaluated on them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ndr.data.split import Split
from ndr.data.store import checksum
from ndr.errors import Refusal
from ndr.tasks import ListOps, MalformedText
from ndr.tasks.malformed import MAX_CHARACTERS

# The public files have a hundred thousand samples at most.
MOST_SAMPLES = 10_000_000
# Round brackets and blanks make a line longer than its text.
LONGEST_LINE = 4 * MAX_CHARACTERS


def lines_of(path: Path | str) -> Iterator[str]:
    """The lines, one at a time: neither a long file nor a long line fills the memory."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number in range(1, MOST_SAMPLES + 3):
                line = file.readline(LONGEST_LINE + 1)
                if not line:
                    return
                if len(line) > LONGEST_LINE:
                    raise Refusal(f"{path}, line {number}: longer than {LONGEST_LINE:,} characters")
                yield line.rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise error if isinstance(error, Refusal) else Refusal(f"cannot read {path}: {error}") from error
    raise Refusal(f"{path} has more than {MOST_SAMPLES:,} lines")


def read_listops(path: Path | str) -> Split:
    """A split from a file with a label, a tab and a text on each line.

    The extra round brackets of the original release are dropped. The Long Range Arena's order (a header line
    `Source Target`, then text, tab, label) is read too. Every label is compared with the true answer.
    """
    task = ListOps()
    ids = {token: place for place, token in enumerate(task.tokens)}
    tokens, lengths, answers, depths = bytearray(), [], [], []
    text_first = False
    for number, line in enumerate(lines_of(path), 1):
        parts = line.split("\t")
        if number == 1 and parts[:2] == ["Source", "Target"]:
            text_first = True
            continue
        if not line.strip():
            continue
        if len(parts) != 2:
            raise Refusal(f"{path}, line {number}: expected a label, a tab and a text")
        text, label = parts if text_first else reversed(parts)
        # Round brackets become blanks: positions in messages still point into the line's text.
        bare = text.replace("(", " ").replace(")", " ")
        try:
            root = task.read(bare)[0]
            words = task.tokenize(bare)
        except MalformedText as error:
            raise Refusal(f"{path}, line {number}: {error}") from error
        if label.strip() != root.value:
            raise Refusal(f"{path}, line {number}: the label is {label.strip()[:20]!r} but the answer is {root.value}")
        tokens += bytes(ids[word] for word in words)
        lengths.append(len(words))
        answers.append(int(root.value))
        depths.append(root.depth)
    if not lengths:
        raise Refusal(f"{path} holds no samples")
    arrays = {
        "tokens": np.frombuffer(bytes(tokens), np.uint8),
        "offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        "answers": np.asarray(answers, np.uint8),
        "depths": np.asarray(depths, np.uint16),
    }
    flat, offsets, labels, found = arrays.values()
    return Split(task, f"file:{path}", 0, checksum(arrays), flat, offsets, labels, found)
