"""Reads the public ListOps files, so that a model can be evaluated on them."""

from pathlib import Path

import numpy as np

from ndr.data.split import Split
from ndr.data.store import checksum
from ndr.errors import Refusal
from ndr.tasks import ListOps, MalformedText


def read_listops(path: Path | str) -> Split:
    """A split from a file with a label, a tab and a text on each line.

    The extra round brackets of the original release are dropped. The Long Range Arena's order (a header line
    `Source Target`, then text, tab, label) is read too. Every label is compared with the true answer.
    """
    task = ListOps()
    ids = {token: place for place, token in enumerate(task.tokens)}
    tokens, lengths, answers, depths = [], [], [], []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"cannot read {path}: {error}") from error
    text_first = bool(lines) and lines[0].split("\t")[:2] == ["Source", "Target"]
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and text_first):
            continue
        parts = line.split("\t")
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
            raise Refusal(f"{path}, line {number}: the label is {label.strip()!r} but the answer is {root.value}")
        tokens += [ids[word] for word in words]
        lengths.append(len(words))
        answers.append(int(root.value))
        depths.append(root.depth)
    if not lengths:
        raise Refusal(f"{path} holds no samples")
    arrays = {
        "tokens": np.asarray(tokens, np.uint8),
        "offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        "answers": np.asarray(answers, np.uint8),
        "depths": np.asarray(depths, np.uint16),
    }
    flat, offsets, labels, found = arrays.values()
    return Split(task, f"file:{path}", 0, checksum(arrays), flat, offsets, labels, found)
