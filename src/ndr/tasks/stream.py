"""The random numbers behind every split: exactly specified integers, the same in Python and in C++.

A split is a list of candidates, and candidate number `i` is a pure function of (key, i). So its bytes cannot
depend on the number of threads, on the order of work, or on what was interrupted.
"""

import hashlib
from collections.abc import Iterable

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(word: int) -> int:
    """The finaliser of SplitMix64: a bijection of 64-bit words in which every input bit reaches every output bit."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def key_of(*words: object) -> int:
    """A 64-bit key for this list of words (their `repr`), independent of PYTHONHASHSEED."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "little")


class Stream:
    """SplitMix64. Candidate `index` of `key` has its own stream."""

    __slots__ = ("state",)

    def __init__(self, key: int, index: int = 0) -> None:
        self.state = mix((key + GOLDEN * (index + 1)) & MASK)

    def bits(self) -> int:
        """32 random bits."""
        self.state = (self.state + GOLDEN) & MASK
        return mix(self.state) >> 32

    def below(self, count: int) -> int:
        """0 … count − 1. Multiply-and-shift: for the small counts used here the bias is under one in 10⁸."""
        return (self.bits() * count) >> 32

    def chance(self, threshold: int) -> bool:
        """True with probability threshold / 2³²."""
        return self.bits() < threshold


def threshold(probability: float) -> int:
    """The threshold of `Stream.chance` for this probability."""
    return min(1 << 32, max(0, int(probability * (1 << 32) + 0.5)))


def held_out(ids: Iterable[int]) -> bool:
    """Whether this sample can never be a training sample: one in eight, decided by its tokens alone.

    So no split needs another one to be made first, and no seed's train holds another seed's iid.
    """
    word = 0xCBF29CE484222325
    for token in ids:
        word = ((word ^ token) * 0x100000001B3) & MASK
    return mix(word) >> 61 == 0
