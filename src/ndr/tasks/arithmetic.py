"""Simple arithmetic: nested additions and multiplications modulo 10, as in `((4*7)+2)`."""

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import ClassVar, Literal

import numpy as np

from ndr.errors import Refusal
from ndr.tasks.fill import fill
from ndr.tasks.malformed import MalformedText, unknown
from ndr.tasks.nested import DIGITS, MOST_TOKENS, Nested, highest
from ndr.tasks.node import Flat
from ndr.tasks.stream import Stream, threshold
from ndr.tasks.task import PATIENCE, Columns, Progress, SplitSpec, balanced
from ndr.tasks.tilt import within

OPEN, CLOSE, TIMES, PLUS, ZERO = 0, 1, 2, 3, 4
# Work still to do while a tree is drawn: a token (below 100), or 100 + 2·height, + 1 if it must be reached exactly.
AT_MOST, EXACTLY = 100, 101


@dataclass(frozen=True)
class Arithmetic(Nested):
    """Expressions of digits, `+` and `*` with brackets around every operation; one character is one token.

    The variant `clean` draws trees freely (an operand is an operation with probability `sub_operation`) given their
    depth and at most `max_length` tokens, so left and right are alike. The variant `paper` draws as the paper's
    runs did, where the deeper operand is mostly on one side.
    """

    sub_operation: float = 0.2
    max_length: int = 50
    variant: Literal["clean", "paper"] = "clean"

    def __post_init__(self) -> None:
        if self.variant not in ("clean", "paper"):
            raise Refusal('arithmetic is "clean" or "paper"')
        if not 0 < self.sub_operation < 0.5:
            raise Refusal(f"sub_operation lies between 0 and 0.5, not {self.sub_operation}")

    @property
    def name(self) -> str:
        return "arithmetic"

    @property
    def tokens(self) -> tuple[str, ...]:
        return ("(", ")", "*", "+", *DIGITS)

    @property
    def brackets(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return ("(",), (")",)

    @property
    def operators(self) -> tuple[str, ...]:
        return ("*", "+")

    @property
    def separator(self) -> str:
        return ""

    @property
    def splits(self) -> dict[str, SplitSpec]:
        # There are only 200 expressions with one operation: train has them all.
        single = tuple(f"({left}{sign}{right})" for sign, left, right in product("+*", DIGITS, DIGITS))
        train = SplitSpec(balanced(range(2, 6), 100_000), "train", always=single)
        if self.variant == "clean":
            return {
                "train": train,
                "iid": SplitSpec(balanced(range(2, 6), 1_000), "held-out"),
                "valid": SplitSpec(balanced([6], 1_000)),
                "test": SplitSpec(balanced([7, 8], 1_000)),
            }
        often = 0.3
        return {
            "train": SplitSpec(train.counts, "train", always=single, sampler="rejection"),
            "iid": SplitSpec(balanced(range(2, 6), 1_000), "held-out", always=single, sampler="rejection"),
            "valid": SplitSpec(balanced([6], 1_000), sub_operation=often, sampler="rejection"),
            "test": SplitSpec(balanced([7, 8], 1_000), sub_operation=often, sampler="rejection"),
        }

    def split(self, text: str) -> list[tuple[str, int]]:
        """One character is one token; blanks between them are allowed."""
        found = []
        for position, symbol in enumerate(text):
            if symbol in self.tokens:
                found.append((symbol, position))
            elif symbol != " ":
                raise unknown(symbol, position)
        return found

    def read(self, text: str) -> list[Flat]:
        """The nodes in the order in which they open; the operator stands for its operation."""
        symbols = self.symbols(text)
        nodes: list[Flat] = []
        # Open operations, each with the node made for it and the position of its bracket.
        waiting: list[tuple[int, int]] = []
        finished: int | None = None
        for column, (symbol, position) in enumerate(symbols):
            node = nodes[waiting[-1][0]] if waiting else None
            if symbol in "()" and finished is not None and not waiting:
                raise MalformedText(f'unbalanced "{symbol}"' if symbol == ")" else 'second expression "("', position)
            if symbol == "(":
                if finished is not None:
                    raise MalformedText('missing operator before "("', position)
                waiting.append((len(nodes), position))
                nodes.append(Flat("", -1, column))
            elif symbol in "+*":
                if node is None:
                    raise MalformedText(f'operator "{symbol}" outside brackets', position)
                if node.label and finished is None:
                    raise MalformedText(f'operator "{node.label}" without a right argument', position)
                if node.label:
                    raise MalformedText(f'second operator "{symbol}" in one pair of brackets', position)
                if finished is None:
                    raise MalformedText(f'operator "{symbol}" without a left argument', position)
                node.label, node.column = symbol, column
                node.children.append(finished)
                finished = None
            elif symbol == ")":
                if node is None:
                    raise MalformedText('unbalanced ")"', position)
                if not node.label:
                    raise MalformedText("brackets without an operator", position)
                if finished is None:
                    raise MalformedText(f'operator "{node.label}" without a right argument', position)
                node.children.append(finished)
                left, right = (nodes[child] for child in node.children)
                pair = int(left.value), int(right.value)
                node.value = str((pair[0] + pair[1] if node.label == "+" else pair[0] * pair[1]) % 10)
                node.depth = 1 + max(left.depth, right.depth)
                node.last, node.selected = column, frozenset((0, 1))
                finished = waiting.pop()[0]
            else:
                if finished is not None:
                    raise MalformedText(f'missing operator before "{symbol}"', position)
                finished = len(nodes)
                nodes.append(Flat(symbol, column, column, column, symbol))
        if waiting:
            raise MalformedText('unclosed "("', waiting[-1][1])
        return nodes

    def sample(self, generator: np.random.Generator, depth: int = 3, length: tuple[int, int] | None = None) -> str:
        ids = self.plan(depth, length).draw(Stream(int(generator.integers(1 << 63))))
        return self.join(self.tokens[token] for token in ids)

    def plan(self, depth: int, length: tuple[int, int] | None = None) -> "TreePlan | SharedPlan":
        """How to build one depth: free trees in the named splits, trees of a chosen length beyond them."""
        shortest, longest = 4 * depth + 1, min(4 * 2 ** min(depth, 60) - 3, MOST_TOKENS)
        if length is None and depth <= 8:
            if self.max_length < shortest:
                raise Refusal(f"arithmetic of depth {depth} needs at least {shortest} tokens, not {self.max_length}")
            return tree_plan(depth, min(self.max_length, longest), self.sub_operation)
        # By default the room per operation stays what it is at depth 8.
        low, high = length or (3 * (6 * depth + 2) // 5, 6 * depth + 2)
        lengths = tuple(n for n in range(max(low, shortest), min(high, longest) + 1) if n % 4 == 1)
        if not lengths or high > MOST_TOKENS:
            raise Refusal(
                f"arithmetic of depth {depth} has {shortest}, {shortest + 4} … tokens, at most {longest}; "
                f"none between {low} and {high}"
            )
        return SharedPlan(depth, lengths)

    def fill(self, spec: SplitSpec, key: int, progress: Progress | None = None) -> Columns:
        if spec.arguments:
            raise Refusal("arithmetic operations always have two arguments")
        if spec.sampler == "rejection":
            chance = threshold(1 - (spec.sub_operation or self.sub_operation))
            paper = WrappedPlan(min(spec.depths), max(spec.depths), self.max_length, chance)
            return fill(self, spec, key, [(paper, spec.counts)], progress)
        plans = [(self.plan(depth, spec.length), ((depth, count),)) for depth, count in spec.counts]
        return fill(self, spec, key, plans, progress)


@dataclass(frozen=True)
class TreePlan:
    """Free trees of one depth. `both` and `left`: which operand reaches the depth; `leaf`: when a tree ends."""

    depth: int
    high: int
    both: tuple[int, ...]
    left: tuple[int, ...]
    leaf: tuple[int, ...]
    keep: tuple[int, ...]
    kind: ClassVar[int] = 1
    patience: ClassVar[int] = PATIENCE

    def numbers(self) -> list[int]:
        return [self.depth, self.high, *self.both, *self.left, *self.leaf, *self.keep]

    def draw(self, stream: Stream) -> list[int]:
        while True:
            ids = grow(stream, EXACTLY + 2 * self.depth, self.high, self.leaf, self.both, self.left)
            if ids and stream.chance(self.keep[len(ids)]):
                return ids


@dataclass(frozen=True)
class SharedPlan:
    """Trees of one depth and a chosen length, all lengths equally often.

    From the top down: a coin says which operand reaches the depth, and the digits are shared between the two in any
    way that is possible, all equally likely.
    """

    depth: int
    lengths: tuple[int, ...]
    kind: ClassVar[int] = 5
    patience: ClassVar[int] = PATIENCE

    def numbers(self) -> list[int]:
        return [self.depth, len(self.lengths), *self.lengths]

    def draw(self, stream: Stream) -> list[int]:
        ids: list[int] = []
        digits = (self.lengths[stream.below(len(self.lengths))] + 3) // 4
        # Tokens, or trees still to draw: (digits, height, whether it must be reached).
        work: list[int | tuple[int, int, bool]] = [(digits, self.depth, True)]
        while work:
            item = work.pop()
            if isinstance(item, int):
                ids.append(item)
                continue
            digits, height, exactly = item
            if digits == 1:
                ids.append(ZERO + stream.below(10))
                continue
            most = 1 << min(height - 1, 20)
            deep_left = bool(stream.below(2))
            # The operand which reaches the depth has at least one digit more than operations on its path.
            fewest = height if exactly else 1
            fewest = max(fewest, digits - most)
            one = fewest + stream.below(min(most, digits - 1) - fewest + 1)
            deep, other = (one, height - 1, exactly), (digits - one, height - 1, False)
            first, second = (deep, other) if deep_left else (other, deep)
            ids.append(OPEN)
            work += (CLOSE, second, TIMES + stream.below(2), first)
        return ids


@dataclass(frozen=True)
class WrappedPlan:
    """The paper's draw: a free tree; while it is too shallow it becomes the right operand of a new operation."""

    low: int
    high: int
    max_length: int
    leaf: int
    kind: ClassVar[int] = 2
    patience: ClassVar[int] = 10_000 * PATIENCE

    def numbers(self) -> list[int]:
        return [self.low, self.high, self.max_length, self.leaf]

    def draw(self, stream: Stream) -> list[int] | None:
        leaf = (self.leaf,) * (self.high + 1)
        ids = grow(stream, AT_MOST + 2 * self.high, self.max_length, leaf)
        while ids and height_of(ids) < self.low:
            new = grow(stream, AT_MOST + 2 * (self.high - 1), self.max_length, leaf)
            sign = TIMES + stream.below(2)
            ids = [OPEN, *new, sign, *ids, CLOSE] if new else None
        return ids if ids and len(ids) <= self.max_length and height_of(ids) <= self.high else None


def height_of(ids: list[int]) -> int:
    """Every operation opens one bracket, so the deepest nesting is the depth."""
    return highest((token == OPEN) - (token == CLOSE) for token in ids)


def grow(
    stream: Stream,
    root: int,
    room: int,
    leaf: tuple[int, ...],
    both: tuple[int, ...] = (),
    left: tuple[int, ...] = (),
) -> list[int] | None:
    """Draw one tree, from left to right; None as soon as it is longer than `room`."""
    ids: list[int] = []
    work = [root]
    while work:
        item = work.pop()
        if item < AT_MOST:
            ids.append(item)
            continue
        if len(ids) + len(work) >= room:
            return None
        height, exactly = divmod(item - AT_MOST, 2)
        if height == 0 or (not exactly and stream.chance(leaf[height])):
            ids.append(ZERO + stream.below(10))
            continue
        first = second = AT_MOST + 2 * (height - 1)
        if exactly:
            choice = stream.bits()
            deep, shallow = EXACTLY + 2 * (height - 1), AT_MOST + 2 * (height - 2)
            if choice < both[height]:
                first = second = deep
            elif choice < left[height]:
                first, second = deep, shallow
            else:
                first, second = shallow, deep
        ids.append(OPEN)
        work += (CLOSE, second, TIMES + stream.below(2), first)
    return ids


@cache
def tree_plan(depth: int, high: int, sub_operation: float) -> TreePlan:
    """The exact law of free trees of this depth and at most `high` tokens, by their generating function."""
    stop, go = 1 - sub_operation, sub_operation

    def weights(z: float) -> tuple[list[float], list[float]]:
        """Total weight of the trees that reach each height exactly, and at most."""
        exactly, at_most = [stop * z], [stop * z]
        for height in range(1, depth + 1):
            below = at_most[height - 2] if height > 1 else 0.0
            exactly.append(go * z * z * z * exactly[-1] * (2 * below + exactly[-1]))
            at_most.append(stop * z + go * z * z * z * at_most[-1] * at_most[-1])
        return exactly, at_most

    def shares(z: float) -> tuple[list[float], list[float]]:
        """Per height: the chance that both operands reach it, and that a tree of at most this height is a digit."""
        exactly, at_most = weights(z)
        both = [0.0] + [
            exactly[height - 1] / (2 * (at_most[height - 2] if height > 1 else 0.0) + exactly[height - 1] or 1.0)
            for height in range(1, depth + 1)
        ]
        return both, [stop * z / total for total in at_most]

    def mean_length(z: float) -> float:
        both, leaf = shares(z)
        exactly, at_most = [1.0], [1.0]
        for height in range(1, depth + 1):
            shallow = at_most[height - 2] if height > 1 else 0.0
            exactly.append(3 + exactly[-1] + both[height] * exactly[-1] + (1 - both[height]) * shallow)
            at_most.append(leaf[height] + (1 - leaf[height]) * (3 + 2 * at_most[-1]))
        return exactly[depth]

    z, keep = within(mean_length, high)
    both, leaf = shares(z)
    return TreePlan(
        depth,
        high,
        tuple(threshold(value) if height > 1 else 1 << 32 for height, value in enumerate(both)),
        tuple(threshold(value + (1 - value) / 2) for value in both),
        tuple(threshold(value) for value in leaf),
        keep,
    )
