"""Make a trained network crisp without training: the widest stretches that its validation split bears."""

from itertools import product
from pathlib import Path

from ndr.data import Split, open_split
from ndr.data.store import bar
from ndr.errors import Refusal
from ndr.models.settings import CopyGated, Geometric, RouterSettings
from ndr.train.open import Opened, with_settings
from ndr.train.sweep import sweep_split

# Gates matter most, so they come first; 0 leaves a part as it is.
GATES = (2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.0)
MATCHES = (4.0, 1.0, 0.2, 0.05, 0.0)


def snap(opened: Opened, data: Path | None = None, *, progress: bool = False) -> tuple[Opened, tuple[str, ...]]:
    """The same weights with the widest stretches that lose nothing on valid, gates first, and what was set."""
    settings = opened.network.settings
    if not (
        isinstance(settings, RouterSettings)
        and isinstance(settings.attention, Geometric)
        and isinstance(settings.update, CopyGated)
    ):
        raise Refusal(f"{opened.name} has no geometric attention with a copy gate, so there is nothing to snap")
    if settings.update.squash == "crisp" or settings.attention.stretch:
        raise Refusal(f"{opened.name} is crisp already: leave --snap out")
    valid = open_split(opened.task, "valid", seed=opened.data_seed, folder=data, progress=progress)
    wanted = right_of(opened, valid)
    choices = list(product(GATES, MATCHES))
    with bar("choosing on valid", len(choices), progress) as advance:
        for gates, matches in choices:
            changes = changes_of(gates, matches)
            snapped = with_settings(opened, changes)
            if advance:
                advance(1)
            if not changes or right_of(snapped, valid) >= wanted:
                break
    return snapped, changes


def changes_of(gates: float, matches: float) -> tuple[str, ...]:
    crisp = ("model.update.squash=crisp", f"model.update.stretch={gates:g}")
    return (*(crisp if gates else ()), *((f"model.attention.stretch={matches:g}",) if matches else ()))


def right_of(opened: Opened, split: Split) -> int:
    """How many problems are right, with as many steps as each needs."""
    return round(sum(score.accuracy * score.count for score in sweep_split(opened, split, "auto")))
