"""Fills a split from numbered candidates: natively where the library was built, in plain Python otherwise.

Both walk through the same candidates and keep the same ones, so both give the same bytes.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ndr import native
from ndr.tasks.stream import Stream, key_of
from ndr.tasks.task import Collector, Columns, Progress, SplitSpec, Task, excluded_from, exhausted, pack

Counts = tuple[tuple[int, int], ...]
SIDES = ("any", "train", "held-out")


# Checked where types are (pytest --jaxtyping-packages).
@runtime_checkable
class Plan(Protocol):
    """Everything that one candidate depends on besides its stream."""

    # Which plan of the native library this is.
    kind: ClassVar[int]
    # Candidates without anything new before a depth counts as exhausted.
    patience: ClassVar[int]

    def numbers(self) -> list[int]:
        """The plan as the native library reads it."""
        ...

    def draw(self, stream: Stream) -> list[int] | None:
        """The token ids of a candidate, or None when it is rejected."""
        ...


def fill(
    task: Task, spec: SplitSpec, key: int, plans: Sequence[tuple[Plan, Counts]], progress: Progress | None = None
) -> Columns:
    """The samples of a split, one plan after another."""
    token_id = {token: place for place, token in enumerate(task.tokens)}
    always = [[token_id[token] for token in task.tokenize(text)] for text in spec.always]
    collect = collect_native if library() else collect_plain
    parts = [pack(task, always)]
    for plan, counts in plans:
        excluded = excluded_from(task, spec)
        parts.append(collect(task, plan, key_of(key, counts), counts, spec.side, excluded, progress))
    return Columns.join(parts)


def collect_plain(
    task: Task, plan: Plan, key: int, counts: Counts, side: str, excluded: list[list[int]], progress: Progress | None
) -> Columns:
    """The reference: one candidate after another."""
    collector = Collector(counts, side, excluded, plan.patience)
    index = 0
    while collector.wanted:
        ids = plan.draw(Stream(key, index))
        index += 1
        depth = -1 if ids is None else task.depth(task.join(task.tokens[token] for token in ids))
        if collector.offer(ids or [], depth) and progress:
            progress(1)
    return pack(task, collector.ids)


def collect_native(
    task: Task, plan: Plan, key: int, counts: Counts, side: str, excluded: list[list[int]], progress: Progress | None
) -> Columns:
    """The same on all cores."""
    code = library()
    assert code is not None
    low, high = min(counts)[0], max(counts)[0]
    missing = np.zeros(high - low + 1, np.int64)
    for depth, count in counts:
        missing[depth - low] += count
    numbers = np.asarray(plan.numbers(), np.uint64)
    flat = np.asarray([token for ids in excluded for token in ids], np.uint8)
    lengths = np.asarray([len(ids) for ids in excluded], np.uint32)
    handle = code.ndr_fill_open(
        *(plan.kind, at(numbers), key, low, len(missing), at(missing), SIDES.index(side)),
        *(plan.patience, at(flat), at(lengths), len(excluded)),
    )
    handle = ctypes.c_void_p(handle)
    try:
        wanted = int(missing.sum())
        # Wave by wave, so that an interrupt is noticed and progress can be shown.
        while wanted:
            kept = code.ndr_fill_more(handle)
            if kept < 0:
                code.ndr_fill_missing(handle, at(missing))
                raise exhausted({low + place: int(count) for place, count in enumerate(missing)})
            wanted -= kept
            if progress:
                progress(kept)
        sizes = np.zeros(2, np.int64)
        code.ndr_fill_size(handle, at(sizes))
        found = Columns(
            np.empty(sizes[1], np.uint8),
            np.empty(sizes[0], np.uint32),
            np.empty(sizes[0], np.uint8),
            np.empty(sizes[0], np.uint16),
        )
        code.ndr_fill_copy(handle, at(found.tokens), at(found.lengths), at(found.answers), at(found.depths))
        return found
    finally:
        code.ndr_fill_close(handle)


def at(array: "np.ndarray[Any, Any]") -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@cache
def library() -> ctypes.CDLL | None:
    """The native library with its signatures, or None where it was not built."""
    code = native.load("tasks/candidates")
    if code is None:
        return None
    pointer, word, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    code.ndr_fill_open.restype = pointer
    code.ndr_fill_open.argtypes = [
        *(number, pointer, ctypes.c_uint64, number, number, pointer, number),
        *(word, pointer, pointer, word),
    ]
    code.ndr_fill_more.restype = word
    code.ndr_fill_more.argtypes = [pointer]
    return code
