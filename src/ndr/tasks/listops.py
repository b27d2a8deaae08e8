"""ListOps by dependency depth: nested MAX, MED, MIN and SM (sum modulo 10), as in `[MED 4 8 5 [MAX 8 4 9 ] ]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

import numpy as np

from ndr.errors import Refusal
from ndr.tasks.fill import fill
from ndr.tasks.malformed import MAX_TOKENS, MalformedText, unknown
from ndr.tasks.nested import DIGITS, MOST_TOKENS, Nested, highest
from ndr.tasks.node import Flat
from ndr.tasks.stream import Stream, threshold
from ndr.tasks.task import PATIENCE, Columns, Progress, SplitSpec, balanced
from ndr.tasks.tilt import solve, within

OPERATIONS = ("[MAX", "[MED", "[MIN", "[SM")
MAX, MED, MIN, SM = range(4)
CLOSE = 14
MOST_ARGUMENTS = 100
TRAIN_DEPTH = 5
# Wrappings tried before a sample is begun again.
MOST_TRIES = 100_000


def apply(operation: int, values: Sequence[int]) -> tuple[int, list[int]]:
    """The value of an operation, and the places of the arguments that it needs."""
    if operation == SM:
        return sum(values) % 10, list(range(len(values)))
    if operation == MED:
        # Equal values keep their order, so which argument is needed is never a matter of chance.
        order = sorted(range(len(values)), key=values.__getitem__)
        middle = order[(len(values) - 1) // 2 : len(values) // 2 + 1]
        return sum(values[place] for place in middle) // len(middle), middle
    value = max(values) if operation == MAX else min(values)
    return value, [list(values).index(value)]


@dataclass(frozen=True)
class ListOps(Nested):
    """Lists of digits and further lists. Depth is dependency depth: that of the tree without unneeded branches.

    MIN and MAX need the first argument that has the extreme value, MED the middle one or two, SM all of them.
    An argument is an operation with probability `sub_operation`; an operation has 2 to `max_arguments` arguments.
    The variant `clean` builds each depth directly within `max_length` tokens; `paper` draws as the paper's runs did.
    """

    sub_operation: float = 0.3
    max_arguments: int = 5
    max_length: int = 50
    variant: Literal["clean", "paper"] = "clean"

    def __post_init__(self) -> None:
        if self.variant not in ("clean", "paper"):
            raise Refusal('listops is "clean" or "paper"')
        if not 0 < self.sub_operation < 1:
            raise Refusal(f"sub_operation lies between 0 and 1, not {self.sub_operation}")
        if not 2 <= self.max_arguments <= MOST_ARGUMENTS:
            raise Refusal(f"max_arguments lies between 2 and {MOST_ARGUMENTS}, not {self.max_arguments}")

    @property
    def name(self) -> str:
        return "listops"

    @property
    def tokens(self) -> tuple[str, ...]:
        return (*DIGITS, *OPERATIONS, "]")

    @property
    def brackets(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return OPERATIONS, ("]",)

    @property
    def operators(self) -> tuple[str, ...]:
        return OPERATIONS

    @property
    def splits(self) -> dict[str, SplitSpec]:
        sampler: Literal["direct", "rejection"] = "direct" if self.variant == "clean" else "rejection"
        return {
            "train": SplitSpec(balanced(range(1, TRAIN_DEPTH + 1), 1_000_000), "train", sampler=sampler),
            "iid": SplitSpec(balanced(range(1, TRAIN_DEPTH + 1), 1_000), "held-out", sampler=sampler),
            "valid": SplitSpec(balanced([6], 1_000), sampler=sampler),
            "test": SplitSpec(balanced([7, 8], 1_000), sampler=sampler),
        }

    def split(self, text: str) -> list[tuple[str, int]]:
        """Blanks separate tokens; `]` may follow a digit or `]` without one."""
        found: list[tuple[str, int]] = []
        start = 0
        for word in text.split(" "):
            inner = word.rstrip("]")
            if inner:
                if inner not in self.tokens:
                    raise unknown(inner, start)
                found.append((inner, start))
            found += [("]", start + place) for place in range(len(inner), len(word))]
            start += len(word) + 1
        return found

    def read(self, text: str) -> list[Flat]:
        """The nodes in the order in which they open."""
        nodes: list[Flat] = []
        waiting: list[tuple[int, int]] = []
        for column, (symbol, position) in enumerate(self.symbols(text)):
            if nodes and not waiting:
                raise MalformedText('unbalanced "]"' if symbol == "]" else f'"{symbol}" after the end', position)
            if symbol != "]":
                if waiting:
                    nodes[waiting[-1][0]].children.append(len(nodes))
                if symbol in OPERATIONS:
                    waiting.append((len(nodes), position))
                    nodes.append(Flat(symbol, column, column))
                else:
                    nodes.append(Flat(symbol, column, column, column, symbol))
                continue
            if not waiting:
                raise MalformedText('unbalanced "]"', position)
            place, opened = waiting.pop()
            node = nodes[place]
            if not node.children:
                raise MalformedText(f'operator "{node.label}" without arguments', opened)
            value, needed = apply(OPERATIONS.index(node.label), [int(nodes[child].value) for child in node.children])
            node.value, node.selected, node.last = str(value), frozenset(needed), column
            node.depth = 1 + max(nodes[node.children[one]].depth for one in needed)
        if waiting:
            raise MalformedText(f'unclosed "{nodes[waiting[-1][0]].label}"', waiting[-1][1])
        return nodes

    def sample(
        self,
        generator: np.random.Generator,
        depth: int = 3,
        length: tuple[int, int] | None = None,
        arguments: tuple[int, int] | None = None,
    ) -> str:
        ids = self.plan(depth, length, arguments).draw(Stream(int(generator.integers(1 << 63))))
        return self.join(self.tokens[token] for token in ids)

    def plan(
        self, depth: int, length: tuple[int, int] | None = None, arguments: tuple[int, int] | None = None
    ) -> "SpinePlan":
        """How to build one depth."""
        fewest, most = arguments or (2, self.max_arguments)
        if not 2 <= fewest <= most <= MOST_ARGUMENTS:
            raise Refusal(f"an operation has between 2 and {MOST_ARGUMENTS} arguments, not {fewest}-{most}")
        shortest = 1 + depth * (fewest + 1)
        # Named splits hold free trees.
        if length is None and arguments is None and depth <= 8:
            return free_plan(depth, max(depth, TRAIN_DEPTH), (fewest, most), self.max_length, self.sub_operation)
        # By default the room per operation stays what it is at depth 8.
        roomy = max(self.max_length, 6 * depth + 2, 2 * shortest)
        low, high = length or (3 * roomy // 5 if depth > 8 else 1, roomy)
        lengths = tuple(n for n in range(low, min(high, MOST_TOKENS) + 1) if reachable(n - 1, depth, fewest, most))
        if not lengths or high > MOST_TOKENS:
            raise Refusal(
                f"listops of depth {depth} with {fewest} to {most} arguments has {shortest} to {MOST_TOKENS} tokens; "
                f"none between {low} and {high}"
            )
        return sized_plan(depth, (fewest, most), lengths, self.sub_operation)

    def fill(self, spec: SplitSpec, key: int, progress: Progress | None = None) -> Columns:
        if spec.sampler == "rejection":
            paper = paper_plan(
                min(spec.depths), max(spec.depths), self.max_arguments, self.max_length, self.sub_operation
            )
            return fill(self, spec, key, [(paper, spec.counts)], progress)
        plans = [(self.plan(depth, spec.length, spec.arguments), ((depth, count),)) for depth, count in spec.counts]
        return fill(self, spec, key, plans, progress)


@dataclass(frozen=True)
class Branching:
    """Free trees, by the height that they may still have: when one ends, and how many arguments it has otherwise."""

    fewest: int
    leaf: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]

    def numbers(self) -> list[int]:
        return [
            self.fewest,
            len(self.leaf),
            len(self.counts[0]),
            *self.leaf,
            *(one for row in self.counts for one in row),
        ]


def choose(stream: Stream, cumulative: tuple[int, ...]) -> int:
    """A place, by thresholds of which the last is 2³²."""
    bits = stream.bits()
    place = 0
    while bits >= cumulative[place]:
        place += 1
    return place


def branch(
    stream: Stream, law: Branching, height: int, room: int, per_operation: int
) -> tuple[list[int], int, int, int] | None:
    """Draw one free tree: its ids, value, dependency depth and cost; None as soon as it must cost more than `room`."""
    ids: list[int] = []
    # What the tree costs if every argument still to come is a digit.
    cost = 1
    if cost > room:
        return None
    # Open operations: operation, arguments wanted, height below, values and depths so far.
    waiting: list[tuple[int, int, int, list[int], list[int]]] = []
    while True:
        if height and not stream.chance(law.leaf[height]):
            operation = stream.below(4)
            count = law.fewest + choose(stream, law.counts[height])
            cost += per_operation + count - 1
            if cost > room:
                return None
            ids.append(10 + operation)
            height -= 1
            waiting.append((operation, count, height, [], []))
            continue
        value, depth = stream.below(10), 0
        ids.append(value)
        while waiting:
            operation, count, height, values, depths = waiting[-1]
            values.append(value)
            depths.append(depth)
            if len(values) < count:
                break
            value, needed = apply(operation, values)
            depth = 1 + max(depths[place] for place in needed)
            ids.append(CLOSE)
            waiting.pop()
        else:
            return ids, value, depth, cost


def reachable(tokens: int, levels: int, fewest: int, most: int) -> bool:
    """Whether at least this many operations can add exactly this many tokens: each adds its arguments and one."""
    if levels == 0:
        return tokens == 0
    operations = max(-(-tokens // (most + 1)), levels)
    return operations * (fewest + 1) <= tokens


@dataclass(frozen=True)
class SpinePlan:
    """Builds a sample from the inside out: a digit is wrapped `depth` times in an operation that needs it.

    Around the wrapped part stand free trees. A wrapping which does not need it, or in which something else reaches
    deeper, is drawn again; one that could have been built from m of its arguments is kept once in m times. With
    `counts` weighted by the places that the wrapped part can take, this is the law of free trees given their depth,
    except that every wrapping succeeds in the end, whatever the value inside.

    With `lengths`, one of them is chosen first and every wrapping adds about its share of it.
    """

    depth: int
    # How high the trees around the first and the last wrapping may be, counted up one by one if they differ.
    heights: tuple[int, int]
    # Most tokens of a free sample.
    high: int
    law: Branching
    counts: tuple[tuple[int, ...], ...]
    # How often a free sample of each length is kept.
    keep: tuple[int, ...]
    lengths: tuple[int, ...]
    kind: ClassVar[int] = 3
    patience: ClassVar[int] = PATIENCE

    def numbers(self) -> list[int]:
        flat = [one for row in self.counts for one in row]
        kept = [len(self.keep), *self.keep, len(self.lengths), *self.lengths]
        return [self.depth, *self.heights, self.high, *self.law.numbers(), *flat, *kept]

    def draw(self, stream: Stream) -> list[int]:
        while True:
            if not self.lengths:
                ids = self.build(stream, 0)
                if ids and stream.chance(self.keep[len(ids)]):
                    return ids
            elif ids := self.build(stream, self.lengths[stream.below(len(self.lengths))]):
                return ids

    def build(self, stream: Stream, length: int) -> list[int] | None:
        """A sample of exactly this length, or with length 0 a free one; None when it becomes too long or is stuck."""
        value = stream.below(10)
        ids = [value]
        share = (length - 1) // self.depth
        for depth in range(1, self.depth + 1):
            levels = self.depth - depth
            least, most = 0, self.high - levels * (self.law.fewest + 1)
            if length:
                # After each wrapping the sample has its part of the length, give or take half a share.
                part = 1 + (length - 1) * depth // self.depth
                slack = share // 2 if levels else 0
                least, most = part - slack, part + slack
            for _ in range(MOST_TRIES):
                wrapping = self.wrap(stream, ids, value, depth, most - len(ids) - 2)
                if wrapping is None and not length:
                    return None
                if (
                    wrapping
                    and len(wrapping[0]) >= least
                    and (not length or self.fits(length - len(wrapping[0]), levels))
                ):
                    break
            else:
                return None
            ids, value = wrapping
        return ids

    def fits(self, tokens: int, levels: int) -> bool:
        return reachable(tokens, levels, self.law.fewest, self.law.fewest + len(self.counts[0]) - 1)

    def wrap(
        self, stream: Stream, ids: list[int], value: int, depth: int, room: int
    ) -> tuple[list[int], int] | tuple[()] | None:
        """One try to wrap `ids` in an operation that needs it: empty when it does not, None when it is too long."""
        operation = stream.below(4)
        height = min(self.heights[0] + depth - 1, self.heights[1])
        count = self.law.fewest + choose(stream, self.counts[height])
        place = stream.below(count)
        pieces, values, depths = [], [], []
        # Every argument has its digit's worth; what is left may make some of them longer.
        room -= count - 1
        for argument in range(count):
            if argument == place:
                pieces.append(ids)
                values.append(value)
                depths.append(depth - 1)
                continue
            free = branch(stream, self.law, height, room + 1, 2)
            if free is None:
                return None
            room -= free[3] - 1
            pieces.append(free[0])
            values.append(free[1])
            depths.append(free[2])
        result, needed = apply(operation, values)
        if place not in needed or max(depths[one] for one in needed) >= depth:
            return ()
        deepest = sum(depths[one] == depth - 1 for one in needed)
        if deepest > 1 and stream.below(deepest) != 0:
            return ()
        return [10 + operation, *(token for piece in pieces for token in piece), CLOSE], result


class Weights:
    """Free trees and wrappings when every token has the weight z."""

    def __init__(
        self, depth: int, heights: tuple[int, int], arguments: tuple[int, int], stop: float, go: float
    ) -> None:
        self.depth, self.heights = depth, heights
        self.kinds = range(arguments[0], arguments[1] + 1)
        # The weights of a digit (where an operation is possible) and of an operation with each number of arguments.
        self.stop, self.go = stop, go / len(self.kinds)

    def powers(self, base: float, shift: int) -> list[float]:
        """Base to the power of (number of arguments − shift)."""
        power, found = 1.0, []
        for exponent in range(1, self.kinds[-1] + 1 - shift):
            power *= base
            if exponent >= self.kinds[0] - shift:
                found.append(power)
        return found

    def totals(self, z: float) -> list[float]:
        """Weight of all free trees of at most each height."""
        found = [z]
        for _ in range(self.heights[1]):
            # Beyond this the numbers only grow, and so would the trees.
            total = self.stop * z + self.go * z * z * sum(self.powers(found[-1], 0)) if found[-1] < 1e3 else 1e9
            found.append(total)
        return found

    def laws(self, z: float) -> tuple[list[float], list[list[float]], list[list[float]]]:
        """By height: the chance of a digit, the shares of argument counts in free trees, and in wrappings."""
        total = self.totals(z)
        leaf = [1.0] + [self.stop * z / one for one in total[1:]]
        inner = [spread([1.0 for _ in self.kinds])] + [spread(self.powers(one, 0)) for one in total[:-1]]
        outer = [spread([n * power for n, power in zip(self.kinds, self.powers(one, 1), strict=True)]) for one in total]
        return leaf, inner, outer

    def mean_length(self, z: float) -> float:
        if self.totals(z)[-1] > 1e3:
            return float(MAX_TOKENS * MAX_TOKENS)
        leaf, inner, outer = self.laws(z)
        free = [1.0]
        for level in range(1, self.heights[1] + 1):
            free.append(leaf[level] + (1 - leaf[level]) * (2 + self.mean(inner[level]) * free[-1]))
        spine = [min(self.heights[0] + level, self.heights[1]) for level in range(self.depth)]
        return 1 + sum(2 + (self.mean(outer[level]) - 1) * free[level] for level in spine)

    def mean(self, shares: list[float]) -> float:
        return sum(n * share for n, share in zip(self.kinds, shares, strict=True))

    def plan(self, z: float, high: int, keep: tuple[int, ...], lengths: tuple[int, ...]) -> SpinePlan:
        leaf, inner, outer = self.laws(z)
        law = Branching(self.kinds[0], tuple(map(threshold, leaf)), tuple(map(cumulative, inner)))
        return SpinePlan(self.depth, self.heights, high, law, tuple(map(cumulative, outer)), keep, lengths)


@cache
def free_plan(depth: int, height: int, arguments: tuple[int, int], high: int, sub_operation: float) -> SpinePlan:
    """Free trees of at most `high` tokens."""
    shortest = 1 + depth * (arguments[0] + 1)
    if high < shortest:
        raise Refusal(f"listops of depth {depth} needs at least {shortest} tokens, not {high}")
    weights = Weights(depth, (height - depth, height - 1), arguments, 1 - sub_operation, sub_operation)
    z, keep = within(weights.mean_length, high)
    return weights.plan(z, high, keep, ())


@cache
def sized_plan(depth: int, arguments: tuple[int, int], lengths: tuple[int, ...], sub_operation: float) -> SpinePlan:
    """All these lengths equally often. The trees around the wrapped part are as low as the lengths allow."""
    height, widest = 2, 2 + arguments[1] * (2 + arguments[1])
    while (arguments[1] - 1) * widest < 3 * lengths[-1] // depth:
        height, widest = height + 1, 2 + arguments[1] * widest
    # A digit weighs the same at every height, so that the length follows z smoothly.
    weights = Weights(depth, (height, height), arguments, 1.0, sub_operation / (1 - sub_operation))
    z = solve(weights.mean_length, (lengths[0] + lengths[-1]) / 2)
    return weights.plan(z, lengths[-1], (), lengths)


def spread(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights]


def cumulative(shares: list[float]) -> tuple[int, ...]:
    """Thresholds for `choose`."""
    total, found = 0.0, []
    for share in shares:
        total += share
        found.append(threshold(total))
    found[-1] = 1 << 32
    return tuple(found)


@dataclass(frozen=True)
class PaperPlan:
    """The paper's draw: a free tree; while too shallow it becomes an argument, never the last, of a new operation.

    The paper counts three tokens for an operation that has two, so its samples stay shorter than its limit.
    """

    low: int
    high: int
    max_length: int
    law: Branching
    kind: ClassVar[int] = 4
    patience: ClassVar[int] = 10_000 * PATIENCE

    def numbers(self) -> list[int]:
        return [self.low, self.high, self.max_length, *self.law.numbers()]

    def draw(self, stream: Stream) -> list[int] | None:
        tree = branch(stream, self.law, self.high, self.max_length, 3)
        while tree is not None and height_of(tree[0]) < self.low:
            # Each further wrapping adds an operation and two digits at least: no use beginning what cannot end.
            if tree[3] + 5 * (self.low - height_of(tree[0])) > self.max_length:
                return None
            operation = stream.below(4)
            count = 2 + stream.below(3)
            place = stream.below(count)
            pieces, cost = [], tree[3] + 3 + count
            for _ in range(count):
                free = branch(stream, self.law, self.high - 1, self.max_length - cost + 1, 3)
                if free is None:
                    return None
                cost += free[3] - 1
                pieces.append(free)
            pieces.insert(place, tree)
            value, needed = apply(operation, [piece[1] for piece in pieces])
            ids = [10 + operation, *(token for piece in pieces for token in piece[0]), CLOSE]
            tree = ids, value, 1 + max(pieces[one][2] for one in needed), cost
        return None if tree is None else tree[0]


def height_of(ids: list[int]) -> int:
    """Operations on the longest path of the whole tree, needed or not."""
    return highest((10 <= token < CLOSE) - (token == CLOSE) for token in ids)


@cache
def paper_plan(low: int, high: int, max_arguments: int, max_length: int, sub_operation: float) -> PaperPlan:
    kinds = max_arguments - 1
    row = cumulative([1 / kinds] * kinds)
    law = Branching(2, (1 << 32, *[threshold(1 - sub_operation)] * high), (row,) * (high + 1))
    return PaperPlan(low, high, max_length, law)
