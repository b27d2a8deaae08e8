"""Compositional table lookup: `101 d a b` asks for b(a(d(101)))."""

from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from typing import ClassVar, Literal

import numpy as np

from ndr.errors import Refusal
from ndr.tasks.fill import fill
from ndr.tasks.malformed import MalformedText, unknown, words_of
from ndr.tasks.node import Flat, Node, freeze
from ndr.tasks.stream import Stream, key_of, mix
from ndr.tasks.task import PATIENCE, Columns, Progress, SplitSpec, Task, balanced

SYMBOLS = tuple(f"{number:03b}" for number in range(8))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Tables which the paper's training set shows only alone, never in a composition.
LONELY = 2


@cache
def tables_of(count: int) -> tuple[tuple[int, ...], ...]:
    """The paper's own tables: the first permutations of its seed. RandomState's stream is frozen for good."""
    generator = np.random.RandomState(0x12345678)
    return tuple(tuple(int(value) for value in generator.permutation(8)) for _ in range(count))


@dataclass(frozen=True)
class TableLookup(Task):
    """A symbol and a list of functions to apply one after another.

    direction: "forward" writes the symbol first, then the functions in the order in which they apply;
        "backward" writes the same from right to left.
    functions: how many functions occur in compositions. The variant `paper` has two more which occur only alone.
    """

    direction: Literal["forward", "backward"] = "forward"
    functions: int = 9
    variant: Literal["clean", "paper"] = "clean"

    def __post_init__(self) -> None:
        if self.direction not in ("forward", "backward") or self.variant not in ("clean", "paper"):
            raise Refusal('table lookup is "forward" or "backward", "clean" or "paper"')
        if not 1 <= self.functions <= len(LETTERS) - LONELY:
            raise Refusal(f"table lookup has between 1 and {len(LETTERS) - LONELY} functions, not {self.functions}")

    @property
    def name(self) -> str:
        return f"ctl-{self.direction}"

    @property
    def letters(self) -> str:
        return LETTERS[: self.functions + (LONELY if self.variant == "paper" else 0)]

    @property
    def tokens(self) -> tuple[str, ...]:
        return (*SYMBOLS, *self.letters)

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(self.letters)

    @property
    def answers(self) -> tuple[str, ...]:
        return SYMBOLS

    @property
    def tables(self) -> tuple[tuple[int, ...], ...]:
        """What each function makes of each symbol."""
        return tables_of(len(self.letters))

    @property
    def splits(self) -> dict[str, SplitSpec]:
        single = tuple(self.compose(symbol, letter) for letter, symbol in product(self.letters, SYMBOLS))
        if self.functions != 9:
            # Sizes that fit any number of functions: at most half of the compositions of a length.
            counts = [(depth, min(12_000, 8 * self.functions**depth // 2)) for depth in range(2, 6)]
            held = [(depth, max(1, count // 40)) for depth, count in counts]
        elif self.variant == "paper":
            # A uniform choice of length leaves 61,136 distinct strings; train has seven in eight of them.
            counts = [(2, 400), (3, 3_700), (4, 20_900), (5, 28_136)]
            held = [(2, 30), (3, 280), (4, 1_575), (5, 2_115)]
            single += single[-8 * LONELY :] * 30
        else:
            # As even as distinct strings allow: there are only 648 with two functions and 5,832 with three.
            counts = [(2, 500), (3, 4_500), (4, 24_316), (5, 24_316)]
            held = [(2, 40), (3, 360), (4, 1_800), (5, 1_800)]
        return {
            "train": SplitSpec(tuple(counts), "train", always=single),
            "iid": SplitSpec(tuple(held), "held-out"),
            "valid": SplitSpec(balanced([6, 7, 8], 1_000)),
            "test": SplitSpec(balanced([9, 10], 1_000)),
        }

    def compose(self, symbol: str, functions: str) -> str:
        """The text of these functions, given in the order in which they apply."""
        words = [symbol, *functions]
        return " ".join(words if self.direction == "forward" else reversed(words))

    def tokenize(self, text: str) -> list[str]:
        return [word for word, _ in self.read(text)]

    def read(self, text: str) -> list[tuple[str, int]]:
        """The words and their positions; refuses whatever is not one symbol at the right end and functions."""
        words = words_of(text)
        end = 0 if self.direction == "forward" else len(words) - 1
        for place, (word, position) in enumerate(words):
            if word not in SYMBOLS and (len(word) != 1 or word not in self.letters):
                raise unknown(word, position)
            if word in SYMBOLS and place != end:
                side = "first" if self.direction == "forward" else "last"
                raise MalformedText(f'symbol "{word}" that is not {side}', position)
        if words[end][0] not in SYMBOLS:
            raise MalformedText("functions without a symbol", words[end][1])
        return words

    def steps(self, text: str) -> list[tuple[str, int, str]]:
        """(word, column, value so far), from the symbol to the last function applied."""
        words = self.tokenize(text)
        order = range(len(words)) if self.direction == "forward" else range(len(words) - 1, -1, -1)
        value, found = 0, []
        for column in order:
            word = words[column]
            value = SYMBOLS.index(word) if word in SYMBOLS else self.tables[self.letters.index(word)][value]
            found.append((word, column, SYMBOLS[value]))
        return found

    def evaluate(self, text: str) -> str:
        return self.steps(text)[-1][2]

    def depth(self, text: str) -> int:
        """The number of functions."""
        return len(self.tokenize(text)) - 1

    def parse(self, text: str) -> Node:
        """A chain: the last function applied is the root, the symbol the only leaf."""
        steps = self.steps(text)
        flat = []
        for place, (word, column, value) in enumerate(reversed(steps)):
            depth = len(steps) - 1 - place
            end = steps[0][1]
            below = [place + 1] if depth else []
            flat.append(
                Flat(
                    word, column, min(column, end), max(column, end), value, depth, below, frozenset(range(len(below)))
                )
            )
        return freeze(flat)

    def sample(self, generator: np.random.Generator, depth: int = 5) -> str:
        ids = draw_lookup(Stream(int(generator.integers(1 << 63))), self.plan(depth))
        return self.join(self.tokens[token] for token in ids)

    def plan(self, depth: int) -> "LookupPlan":
        return LookupPlan(
            depth, self.functions, self.direction == "backward", self.reserved(depth), self.tables[: self.functions]
        )

    @cache  # noqa: B019  (specs are few and small)
    def reserved(self, depth: int) -> tuple[int, ...]:
        """Compositions that the paper keeps out of train and iid: a quarter of each length, at most 200."""
        if self.variant == "clean" or not 2 <= depth <= 5:
            return ()
        total = self.functions**depth
        by_chance = sorted(range(total), key=lambda composition: mix(key_of("reserved", depth) ^ composition))
        return tuple(sorted(by_chance[: min(200, -(-total // 4))]))

    def fill(self, spec: SplitSpec, key: int, progress: Progress | None = None) -> Columns:
        if spec.length or spec.arguments:
            raise Refusal(f"the length of {self.name} is its number of functions plus one: ask for a depth only")
        return fill(self, spec, key, [(self.plan(depth), ((depth, count),)) for depth, count in spec.counts], progress)


@dataclass(frozen=True)
class LookupPlan:
    """Everything that drawing a sample depends on."""

    depth: int
    functions: int
    backward: bool
    # Compositions, read as numbers in base `functions`, that are not drawn.
    reserved: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    kind: ClassVar[int] = 0
    patience: ClassVar[int] = PATIENCE

    def numbers(self) -> list[int]:
        return [self.depth, self.functions, self.backward, len(self.reserved), *self.reserved, *chain(*self.tables)]

    def draw(self, stream: Stream) -> list[int] | None:
        return draw_lookup(stream, self)


def draw_lookup(stream: Stream, plan: LookupPlan) -> list[int]:
    """Independent functions and a symbol, all equally likely."""
    while True:
        functions = [stream.below(plan.functions) for _ in range(plan.depth)]
        if number_of(functions, plan.functions) not in plan.reserved:
            break
    words = [stream.below(8), *(8 + function for function in functions)]
    return words[::-1] if plan.backward else words


def number_of(digits: list[int], base: int) -> int:
    number = 0
    for digit in digits:
        number = number * base + digit
    return number
