"""What a task is, and how its splits are described and filled."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ndr.errors import Refusal, nearest
from ndr.tasks.malformed import unknown, words_of
from ndr.tasks.stream import held_out, key_of

Progress = Callable[[int], None]
MAX_DEPTH = 1_000
# Candidates without anything new before a depth counts as exhausted.
PATIENCE = 20_000


@dataclass(frozen=True)
class SplitSpec:
    """Which samples a split holds. Together with the task and a seed it fixes every byte."""

    # (depth, number of samples), for each depth.
    counts: tuple[tuple[int, int], ...]
    # "train" and "held-out" never share a sample; "any" is for depths that train does not have.
    side: Literal["train", "held-out", "any"] = "any"
    # Fewest and most tokens; None: what the task takes by itself.
    length: tuple[int, int] | None = None
    # Fewest and most arguments of an operation; None: what the task takes by itself.
    arguments: tuple[int, int] | None = None
    # Texts that are put in before anything is drawn.
    always: tuple[str, ...] = ()
    # Probability of an operation inside an operation; None: what the task takes by itself.
    sub_operation: float | None = None
    # "direct" builds each depth; "rejection" draws as the paper did until every depth has its share.
    sampler: Literal["direct", "rejection"] = "direct"

    @property
    def depths(self) -> tuple[int, ...]:
        return tuple(depth for depth, _ in self.counts)

    def __len__(self) -> int:
        return len(self.always) + sum(count for _, count in self.counts)


def balanced(depths: Iterable[int], count: int) -> tuple[tuple[int, int], ...]:
    """`count` samples over these depths, each depth the same number to one."""
    listed = sorted(set(depths))
    share, rest = divmod(count, len(listed))
    return tuple((depth, share + (place < rest)) for place, depth in enumerate(listed))


def scaled(counts: tuple[tuple[int, int], ...], count: int) -> tuple[tuple[int, int], ...]:
    """`count` samples in the same proportions, to one."""
    total = sum(share for _, share in counts)
    ends, before = [0], 0
    for _, share in counts:
        before += share
        ends.append(before * count // total)
    return tuple((depth, ends[place + 1] - ends[place]) for place, (depth, _) in enumerate(counts))


@dataclass(frozen=True)
class Columns:
    """The samples of a split as flat arrays."""

    tokens: np.ndarray  # all samples, one after another
    lengths: np.ndarray  # tokens of each sample
    answers: np.ndarray
    depths: np.ndarray

    @staticmethod
    def join(parts: "list[Columns]") -> "Columns":
        return Columns(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("tokens", "lengths", "answers", "depths")
            )
        )


class Task(ABC):
    """A task: `tokens`, `answers`, `sample`, `evaluate` and `depth` are all that a new one must say."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def tokens(self) -> tuple[str, ...]:
        """Every token; the id of a token is its place here."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """Every answer; the class of an answer is its place here."""

    @abstractmethod
    def sample(self, generator: np.random.Generator, depth: int) -> str:
        """A random text with exactly this depth."""

    @abstractmethod
    def evaluate(self, text: str) -> str:
        """The answer."""

    @abstractmethod
    def depth(self, text: str) -> int:
        """Operations on the longest needed path."""

    @property
    def brackets(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tokens that begin and that end a problem within a problem; none if problems do not nest so."""
        return (), ()

    @property
    def operators(self) -> tuple[str, ...]:
        """The tokens that stand for one operation each; a curriculum can let their number grow."""
        return ()

    @property
    def variant(self) -> str:
        return "clean"

    @property
    def separator(self) -> str:
        """What stands between the tokens of a text."""
        return " "

    @property
    def splits(self) -> Mapping[str, SplitSpec]:
        """The named splits: train, iid, valid and test."""
        return {
            "train": SplitSpec(balanced(range(1, 6), 20_000), "train"),
            "iid": SplitSpec(balanced(range(1, 6), 1_000), "held-out"),
            "valid": SplitSpec(balanced([6], 1_000)),
            "test": SplitSpec(balanced([7, 8], 1_000)),
        }

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, or MalformedText."""
        known = set(self.tokens)
        for word, position in words_of(text):
            if word not in known:
                raise unknown(word, position)
        return [word for word, _ in words_of(text)]

    def join(self, tokens: Iterable[str]) -> str:
        """The text of these tokens."""
        return self.separator.join(tokens)

    def describe(self, split: str, count: int | None = None) -> SplitSpec:
        """The spec of a named split, or of one beyond such as `depth-20` or `depth-9-12,length-100-200`."""
        if split in self.splits:
            spec = self.splits[split]
            if count is None or count == len(spec):
                return spec
            if count < 1:
                raise Refusal(f"a split needs at least one sample, not {count}")
            # A small split keeps the texts that are put in first only if they leave room for others.
            always = spec.always if 2 * len(spec.always) <= count else ()
            return replace(spec, counts=scaled(spec.counts, count - len(always)), always=always)
        return beyond(split, 1_000 if count is None else count, self.splits)

    def fill(self, spec: SplitSpec, key: int, progress: Progress | None = None) -> Columns:
        """Draw the samples of a split: for each depth, the first distinct candidates on the right side."""
        return fill_plain(self, spec, key, progress)


def beyond(name: str, count: int, named: Mapping[str, SplitSpec]) -> SplitSpec:
    """Read a split such as `depth-20`, `depth-9-12`, `depth-4,arguments-6-8` or `depth-30,length-200-300`."""
    found: dict[str, tuple[int, int]] = {}
    for part in name.split(","):
        match = re.fullmatch(r"(depth|length|arguments)-([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if not match:
            raise Refusal(
                f'there is no split "{name}"{nearest(name, named)}; '
                f"use {', '.join(named)}, or one beyond such as depth-20 or depth-20,length-100-200"
            )
        low = int(match[2])
        high = int(match[3] or match[2])
        if match[1] in found or high < low:
            raise Refusal(f'the split "{name}" names {match[1]} twice or from high to low')
        found[match[1]] = (low, high)
    if "depth" not in found:
        raise Refusal(f'the split "{name}" needs a depth, as in depth-20,{name}')
    if count < 1:
        raise Refusal(f"a split needs at least one sample, not {count}")
    low, high = found["depth"]
    if low < 1 or high > MAX_DEPTH:
        raise Refusal(f"the depth of a split lies between 1 and {MAX_DEPTH}, not {low}-{high}")
    depths = range(low, high + 1)
    trained = set(named["train"].depths) if "train" in named else set()
    # A sample of a depth that train has could be in train; one of another depth cannot.
    side: Literal["held-out", "any"] = "held-out" if trained & set(depths) else "any"
    return SplitSpec(balanced(depths, count), side, found.get("length"), found.get("arguments"))


class Collector:
    """Keeps distinct candidates, in their order, until every depth has its share."""

    def __init__(
        self,
        counts: tuple[tuple[int, int], ...],
        side: str,
        excluded: Iterable[list[int]] = (),
        patience: int = PATIENCE,
    ) -> None:
        self.missing = dict(counts)
        self.wanted = sum(self.missing.values())
        self.side = side
        self.seen = {as_bytes(ids) for ids in excluded}
        self.patience = patience
        self.idle = 0
        self.ids: list[list[int]] = []

    def offer(self, ids: list[int], depth: int) -> bool:
        """Take a candidate if it is wanted; say whether it was."""
        self.idle += 1
        if self.idle > self.patience:
            raise exhausted(self.missing)
        if not self.missing.get(depth):
            return False
        if self.side != "any" and held_out(ids) != (self.side == "held-out"):
            return False
        word = as_bytes(ids)
        if word in self.seen:
            return False
        self.seen.add(word)
        self.ids.append(ids)
        self.missing[depth] -= 1
        self.wanted -= 1
        self.idle = 0
        return True


def exhausted(missing: Mapping[int, int]) -> Refusal:
    listed = ", ".join(f"{count} at depth {depth}" for depth, count in missing.items() if count)
    return Refusal(f"there are not enough different samples ({listed} are missing); ask for a smaller count")


def fill_plain(task: Task, spec: SplitSpec, key: int, progress: Progress | None = None) -> Columns:
    """The door for tasks written in Python: `sample`, `evaluate` and `depth` are asked for everything."""
    token_id = {token: place for place, token in enumerate(task.tokens)}

    def ids_of(text: str) -> list[int]:
        return [token_id[token] for token in task.tokenize(text)]

    samples = [ids_of(text) for text in spec.always]
    for depth, count in spec.counts:
        collector = Collector(((depth, count),), spec.side, excluded_from(task, spec))
        index = 0
        while collector.wanted:
            # Philox is keyed, so candidate `index` is the same whoever draws it.
            generator = np.random.Generator(np.random.Philox(key=[key_of(key, depth), index]))
            index += 1
            text = task.sample(generator, depth)
            if task.depth(text) != depth:
                raise Refusal(f"{task.name}: sample(depth={depth}) gave a text of depth {task.depth(text)}: {text!r}")
            if collector.offer(ids_of(text), depth) and progress:
                progress(1)
        samples += collector.ids
    return pack(task, samples)


def as_bytes(ids: list[int]) -> bytes:
    return np.asarray(ids, np.uint16).tobytes()


def excluded_from(task: Task, spec: SplitSpec) -> list[list[int]]:
    """What must not be drawn: the texts put in first, here and (unless this is train) in train."""
    texts = set(spec.always)
    if spec.side != "train" and "train" in task.splits:
        texts |= set(task.splits["train"].always)
    token_id = {token: place for place, token in enumerate(task.tokens)}
    return [[token_id[token] for token in task.tokenize(text)] for text in sorted(texts)]


def pack(task: Task, samples: list[list[int]]) -> Columns:
    """Evaluate samples and lay them out flat."""
    answer_id = {answer: place for place, answer in enumerate(task.answers)}
    texts = [task.join(task.tokens[token] for token in ids) for ids in samples]
    return Columns(
        np.asarray([token for ids in samples for token in ids], np.uint8 if len(task.tokens) <= 256 else np.uint16),
        np.asarray([len(ids) for ids in samples], np.uint32),
        np.asarray(
            [answer_id[task.evaluate(text)] for text in texts], np.uint8 if len(answer_id) <= 256 else np.uint16
        ),
        np.asarray([task.depth(text) for text in texts], np.uint16),
    )


def shuffled(columns: Columns, key: int) -> Columns:
    """The same samples in another order, so that any first part of a split holds every depth."""
    count = len(columns.lengths)
    with np.errstate(over="ignore"):
        words = mix_array(np.arange(count, dtype=np.uint64) + np.uint64(key))
    order = np.argsort(words, kind="stable")
    starts = np.cumsum(columns.lengths, dtype=np.int64) - columns.lengths
    lengths = columns.lengths[order]
    # Where each token of the new order stands in the old one.
    ends = np.cumsum(lengths, dtype=np.int64)
    places = np.arange(len(columns.tokens)) + np.repeat(starts[order] - (ends - lengths), lengths)
    return Columns(columns.tokens[places], lengths, columns.answers[order], columns.depths[order])


def mix_array(words: np.ndarray) -> np.ndarray:
    """`stream.mix` of every word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = words ^ (words >> np.uint64(31))
    return mixed
