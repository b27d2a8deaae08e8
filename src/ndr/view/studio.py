"""The networks that an explorer shows, and what may be asked of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ndr.errors import Refusal
from ndr.models import NeuralDataRouter
from ndr.tasks import MalformedText, Task
from ndr.view.contract import MAX_NUMBERS, MAX_WEIGHTS, Model, Models, PackedTrace, Parsed, TreeNode
from ndr.view.networks import display_name, open_router
from ndr.view.packing import pack
from ndr.view.size import check_trace
from ndr.view.tree import tree_of

# The example of the paper's Section 5, and of the same kind for the other tasks.
WELL_KNOWN = {
    "listops": ("[SM [MED [MIN 1 7 4 [MAX 2 4 0 8 9 ] ] 7 ] 5 [MED 8 5 8 ] 0 7 ]", "[MED 4 8 5 [MAX 8 4 9 ] ]"),
    "arithmetic": ("((4*7)+2)", "((1+(5*3))*(8+4))"),
    "ctl-forward": ("101 d a b", "110 a f b g d"),
    "ctl-backward": ("b a d 101", "d g b f a 110"),
}
EXAMPLE_DEPTHS = (2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class Exhibit:
    """One network with its name and task."""

    name: str
    network: NeuralDataRouter
    task: Task | None

    @property
    def heads(self) -> int:
        return self.network.settings.attention.heads

    def describe(self) -> Model:
        settings = self.network.settings
        return Model(
            name=self.name,
            task=settings.task,
            attention=settings.attention.kind,
            gated=settings.update.kind == "copy-gate",
            halting=settings.halting is not None,
            heads=self.heads,
            steps=self.network.steps_now(None),
            readout=settings.readout,
            tokens=settings.tokens,
            answers=settings.answers,
            examples=self.examples(),
        )

    def examples(self) -> tuple[str, ...]:
        """Well-known texts and a few deeper ones, the same at every start."""
        if self.task is None:
            return ()
        known = WELL_KNOWN.get(self.task.name, ())
        drawn = tuple(self.task.sample(np.random.default_rng(depth), depth) for depth in EXAMPLE_DEPTHS)
        return tuple(dict.fromkeys((*known, *drawn)))

    def tokenize(self, text: str) -> list[str]:
        """The tokens, or the position at which the text goes wrong."""
        if self.task is not None:
            # The parser sees more than the tokenizer: brackets, missing arguments.
            getattr(self.task, "parse", self.task.tokenize)(text)
            return self.task.tokenize(text)
        if not text.strip():
            raise MalformedText("empty input", 0)
        return self.network.vocabulary.tokenize(text)


def open_exhibits(runs: Sequence[str]) -> list[Exhibit]:
    """Open every network; equal names get a number."""
    exhibits: list[Exhibit] = []
    names: dict[str, int] = {}
    for run in runs:
        network, task = open_router(run)
        name = display_name(run)
        names[name] = names.get(name, 0) + 1
        shown = name if names[name] == 1 else f"{name} ({names[name]})"
        exhibits.append(Exhibit(shown, network.eval(), task))
    return exhibits


class Studio:
    """Answers for the exhibits."""

    def __init__(self, exhibits: Sequence[Exhibit]) -> None:
        self.exhibits = tuple(exhibits)
        self.models = Models(models=tuple(exhibit.describe() for exhibit in self.exhibits))

    def exhibit(self, place: int) -> Exhibit:
        if place >= len(self.exhibits):
            raise Refusal(f"there is no model {place}; there are {len(self.exhibits)}, counted from 0")
        return self.exhibits[place]

    def parse(self, place: int, text: str) -> Parsed:
        exhibit = self.exhibit(place)
        columns = ("B", *exhibit.tokenize(text), "E")
        tree = tree_of(exhibit.task, text)
        return Parsed(
            text=text,
            columns=columns,
            tree=None if tree is None else tuple(TreeNode(**asdict(vertex)) for vertex in tree),
            value=None if exhibit.task is None else exhibit.task.evaluate(text),
        )

    def trace(self, place: int, text: str, steps: int | None = None) -> PackedTrace:
        exhibit = self.exhibit(place)
        columns = len(exhibit.tokenize(text)) + 2
        steps = exhibit.network.steps_now(steps, columns)
        check_trace(exhibit.network, columns, steps, MAX_WEIGHTS, MAX_NUMBERS)
        return pack(exhibit.network.trace(text, steps=steps))
