"""How a sampler that draws trees freely is steered to the wanted lengths.

Every token is given the weight z: with z < 1 long trees become rare, with z > 1 short ones. Only additions,
multiplications and divisions of floats are used, so that the thresholds are the same on every machine.
"""

from collections.abc import Callable

from ndr.tasks.stream import threshold


def within(mean_length: Callable[[float], float], high: int) -> tuple[float, tuple[int, ...]]:
    """Free trees of at most `high` tokens: the weight to draw with, and how often to keep a sample of each length.

    A sample of n tokens is kept with probability z^(high − n), which undoes the weight: each tree is as likely as it
    would be by drawing freely and waiting for a short one.
    """
    if mean_length(1.0) <= 0.8 * high:
        return 1.0, (1 << 32,) * (high + 1)
    z = solve(mean_length, 0.75 * high)
    chances = [1.0]
    for _ in range(high):
        chances.append(chances[-1] * z)
    return z, tuple(threshold(chance) for chance in reversed(chances))


def solve(mean_length: Callable[[float], float], target: float) -> float:
    """The weight z at which the mean length is the target."""
    small, large = 2.0**-10, 4.0
    for _ in range(60):
        middle = (small + large) / 2
        if mean_length(middle) < target:
            small = middle
        else:
            large = middle
    return small
