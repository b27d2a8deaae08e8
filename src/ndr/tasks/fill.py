"""Fills a split from numbered candidates: natively where the library was built, in plain Python otherwise.

Both walk through the same candidates and keep the same ones, so both give the same bytes.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from ndr.tasks.stream import Stream, key_of
from ndr.tasks.task import Collector, Columns, Progress, SplitSpec, Task, excluded_from, pack

Counts = tuple[tuple[int, int], ...]


class Plan(Protocol):
    """Everything that one candidate depends on besides its stream."""

    kind: ClassVar[int]

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
    parts = [pack(task, always)] if always else []
    for number, (plan, counts) in enumerate(plans):
        collector = Collector(counts, spec.side, excluded_from(task, spec))
        collect_plain(task, plan, key_of(key, number, counts), collector, progress)
        parts.append(pack(task, collector.ids))
    return Columns.join(parts)


def collect_plain(task: Task, plan: Plan, key: int, collector: Collector, progress: Progress | None) -> None:
    index = 0
    while collector.wanted:
        ids = plan.draw(Stream(key, index))
        index += 1
        depth = -1 if ids is None else task.depth(task.join(task.tokens[token] for token in ids))
        if collector.offer(ids or [], depth) and progress:
            progress(1)


__all__ = ["Counts", "Plan", "fill", "np"]
