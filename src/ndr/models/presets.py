"""The networks of the paper: a function per row of its tables, with the sizes of its runs.

Each takes the task whose text it is to read ("ctl", "arithmetic" or "listops" decides the sizes) and returns
settings; `ndr.models.network.build` makes the network. Widths that the paper prints differently from what its runs
used follow the runs (docs/deviations.md).
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from ndr.errors import Refusal
from ndr.models.settings import (
    Absolute,
    AbsoluteRelative,
    CopyGated,
    DNCSettings,
    Geometric,
    RecurrentSettings,
    Relative,
    Residual,
    RouterSettings,
)

Column = Literal["first", "last"]


class HasText(Protocol):
    """What a preset needs of a task."""

    @property
    def name(self) -> str: ...
    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def answers(self) -> tuple[str, ...]: ...


def family(task: HasText) -> str:
    """The task's name without its direction; it decides the sizes."""
    return task.name.split("-")[0]


def pick(task: HasText, row: str, sizes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if family(task) not in sizes:
        raise Refusal(f'the paper has no row "{row}" for {task.name}; it has one for {", ".join(sizes)}')
    variant = getattr(task, "variant", "clean")
    return {
        "task": task.name,
        "variant": variant,
        "tokens": task.tokens,
        "answers": task.answers,
        **sizes[family(task)],
    }


def lstm(task: HasText) -> RecurrentSettings:
    return RecurrentSettings(**pick(task, "lstm", LSTM))


def bilstm(task: HasText) -> RecurrentSettings:
    return RecurrentSettings(**pick(task, "bilstm", LSTM), bidirectional=True)


def dnc(task: HasText) -> DNCSettings:
    return DNCSettings(**pick(task, "dnc", {"ctl": {}}))


LSTM = {
    "ctl": {"hidden": 200, "layers": 1, "embedding": 16, "dropout": 0.5},
    "arithmetic": {"hidden": 200, "layers": 2, "embedding": 200, "dropout": 0.5},
    "listops": {"hidden": 512, "layers": 4, "embedding": 512, "dropout": 0.1},
}

# The gateless Transformers: width, steps, column of the readout; inner width, dropout of the update; heads.
GATELESS = {
    "ctl": {"width": 128, "steps": 11, "readout": "last"},
    "arithmetic": {"width": 128, "steps": 11, "readout": "first"},
    "listops": {"width": 256, "steps": 6, "readout": "first"},
}
GATELESS_UPDATE = {
    "ctl": Residual(hidden=256, dropout=0.1),
    "arithmetic": Residual(hidden=256, dropout=0.5),
    "listops": Residual(hidden=1024, dropout=0.015),
}
GATELESS_HEADS = {"ctl": 4, "arithmetic": 4, "listops": 16}
RELATIVE_DROPOUT = {"ctl": 0.0, "arithmetic": 0.1, "listops": 0.05}


def gateless(task: HasText, row: str, readout: Column | None, **parts: Any) -> RouterSettings:
    sizes = pick(task, row, GATELESS)
    if readout is not None:
        sizes["readout"] = readout
    return RouterSettings(**{**sizes, "update": GATELESS_UPDATE[family(task)], **parts})


def transformer(task: HasText, readout: Column | None = None, **parts: Any) -> RouterSettings:
    attention = Absolute(heads=GATELESS_HEADS.get(family(task), 1))
    return gateless(task, "transformer", readout, attention=attention, **parts)


def rel(task: HasText, readout: Column | None = None, **parts: Any) -> RouterSettings:
    kind = family(task)
    attention = Relative(heads=GATELESS_HEADS.get(kind, 1), dropout=RELATIVE_DROPOUT.get(kind, 0.0))
    embedding = "xavier" if kind == "listops" else "kaiming"
    return gateless(task, "rel", readout, attention=attention, embedding=embedding, **parts)


def geom(task: HasText, readout: Column | None = None, **parts: Any) -> RouterSettings:
    if family(task) != "ctl":
        pick(task, "geom", {"ctl": {}})
    attention = Geometric(heads=4, dropout=0.0, normalise=True)
    return gateless(task, "geom", readout, attention=attention, embedding="kaiming", **parts)


def with_act(row: Callable[..., RouterSettings], variant: Literal["A", "U"]) -> Callable[[HasText], RouterSettings]:
    """A gateless row with adaptive computation time, at most 14 steps; only table lookup has these."""

    def preset(task: HasText) -> RouterSettings:
        pick(task, f"{row.__name__}-act-{variant.lower()}", {"ctl": {}})
        return row(task, halting=variant, steps=14)

    return preset


# The gated softmax rows have four times the width inside, whatever the tables say.
GATED = {
    "ctl": {"width": 256, "steps": 14, "readout": "last"},
    "arithmetic": {"width": 256, "steps": 15, "readout": "last"},
    "listops": {"width": 512, "steps": 20, "readout": "first"},
}
GATED_HEADS = {"ctl": 1, "arithmetic": 4, "listops": 16}
TANH_GATE = {
    "ctl": CopyGated(hidden=1024, dropout=0.5, gate_dropout=0.0, candidate="tanh"),
    "arithmetic": CopyGated(hidden=1024, dropout=0.5, gate_dropout=0.1, candidate="tanh"),
    "listops": CopyGated(hidden=2048, dropout=0.1, gate_dropout=0.05, candidate="tanh"),
}
NDR_GATE = {
    "ctl": CopyGated(hidden=512, dropout=0.5, gate_dropout=0.1),
    "arithmetic": CopyGated(hidden=1024, dropout=0.5, gate_dropout=0.1),
    "listops": CopyGated(hidden=1024, dropout=0.1, gate_dropout=0.05),
}


def gated(task: HasText, row: str, readout: Column | None, **parts: Any) -> RouterSettings:
    sizes = pick(task, row, GATED)
    if readout is not None:
        sizes["readout"] = readout
    return RouterSettings(**{**sizes, **parts})


def rel_gate(task: HasText, readout: Column | None = None) -> RouterSettings:
    pick(task, "rel-gate", {"ctl": {}})
    return gated(task, "rel-gate", readout, attention=Relative(heads=1, dropout=0.1), update=TANH_GATE["ctl"])


def absrel_gate(task: HasText, readout: Column | None = None) -> RouterSettings:
    kind = family(task)
    attention = AbsoluteRelative(heads=GATED_HEADS.get(kind, 1), dropout=0.1)
    return gated(task, "absrel-gate", readout, attention=attention, update=TANH_GATE.get(kind))


def ndr(task: HasText, readout: Column | None = None, steps: int | None = None) -> RouterSettings:
    """The Neural Data Router; on ListOps it takes 24 steps at test after 20 in training."""
    kind = family(task)
    attention = Geometric(heads=GATED_HEADS.get(kind, 1), dropout=0.1)
    parts: dict[str, Any] = {"attention": attention, "update": NDR_GATE.get(kind)}
    if steps is not None:
        parts["steps"] = steps
    elif kind == "listops":
        parts["test_steps"] = 24
    return gated(task, "ndr", readout, **parts)


PRESETS: dict[str, Callable[[HasText], RouterSettings | RecurrentSettings | DNCSettings]] = {
    "lstm": lstm,
    "bilstm": bilstm,
    "dnc": dnc,
    "transformer": transformer,
    "transformer-act-a": with_act(transformer, "A"),
    "transformer-act-u": with_act(transformer, "U"),
    "rel": rel,
    "rel-act-a": with_act(rel, "A"),
    "rel-act-u": with_act(rel, "U"),
    "geom": geom,
    "geom-act-a": with_act(geom, "A"),
    "geom-act-u": with_act(geom, "U"),
    "rel-gate": rel_gate,
    "absrel-gate": absrel_gate,
    "ndr": ndr,
}
