"""Which samples an iteration sees: pure functions of (seed, iteration), so resuming means knowing the iteration."""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ndr.errors import Refusal

Indices = npt.NDArray[np.int64]


def generator(*words: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def check(count: int, batch: int) -> None:
    if not 1 <= batch <= count:
        raise Refusal(f"a batch holds between 1 and {count} samples (all there are), not {batch}")


class LengthBucketed:
    """The paper's batches, almost without padding.

    Each pass: shuffle, drop what does not fill a batch, sort by length (equal lengths stay shuffled), cut into
    batches, visit them in random order.
    """

    def __init__(self, lengths: npt.NDArray[Any], batch: int, seed: int) -> None:
        check(len(lengths), batch)
        # Sorting small integers is several times faster than sorting large ones.
        self.lengths = np.asarray(lengths).astype(np.uint16 if np.max(lengths) < 1 << 16 else np.int64)
        self.batch = batch
        self.seed = seed
        self.per_pass = len(lengths) // batch
        self.one_pass = lru_cache(maxsize=2)(self.cut)

    def cut(self, number: int) -> Indices:
        """The batches of a pass, in the order in which they are visited."""
        draw = generator(self.seed, number)
        order = draw.permutation(len(self.lengths))[: self.per_pass * self.batch]
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches: Indices = order.reshape(self.per_pass, self.batch)
        return batches[draw.permutation(self.per_pass)]

    def at(self, iteration: int) -> Indices:
        number, place = divmod(iteration, self.per_pass)
        chosen: Indices = self.one_pass(number)[place]
        return chosen


class Equal:
    """Every group (length, depth …) equally often; each batch holds one group.

    A round visits every group once, in random order. Inside a group no sample comes back before all have been seen.
    """

    def __init__(self, groups: npt.NDArray[Any], batch: int, seed: int) -> None:
        check(len(groups), min(batch, len(groups)))
        kinds, first = np.unique(groups, return_inverse=True)
        order = np.argsort(first, kind="stable")
        self.members = np.split(order, np.cumsum(np.bincount(first))[:-1])
        self.groups = kinds
        self.batch = batch
        self.seed = seed
        self.shuffled = lru_cache(maxsize=2 * len(kinds) + 2)(self.shuffle)
        self.order = lru_cache(maxsize=2)(lambda turn: generator(seed, 0, turn).permutation(len(kinds)))

    def shuffle(self, group: int, number: int) -> Indices:
        members = self.members[group]
        return members[generator(self.seed, 1, group, number).permutation(len(members))]

    def at(self, iteration: int) -> Indices:
        turn, place = divmod(iteration, len(self.members))
        group = int(self.order(turn)[place])
        size = len(self.members[group])
        start, stop = turn * self.batch, (turn + 1) * self.batch
        passes = [self.shuffled(group, number) for number in range(start // size, -(-stop // size))]
        skip = start - start // size * size
        return np.concatenate(passes)[skip : skip + self.batch]


class Uniform:
    """Independent samples with replacement, the paper's other mode."""

    def __init__(self, count: int, batch: int, seed: int) -> None:
        check(count, 1)
        self.count = count
        self.batch = batch
        self.seed = seed

    def at(self, iteration: int) -> Indices:
        return generator(self.seed, iteration).integers(self.count, size=self.batch)


def longest_first(lengths: npt.NDArray[Any], batch: int) -> list[Indices]:
    """Batches for evaluation: every sample once, longest first, the last batch as it comes."""
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    return [order[start : start + batch] for start in range(0, len(order), batch)]
