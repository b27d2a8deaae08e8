"""What every step of a network did, as a record."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class StepRecord(NamedTuple):
    """One step of a batch; None for what a network does not have."""

    states: Float[Tensor, "batch column width"]
    attention: Float[Tensor, "batch head target source"] | None
    gate: Float[Tensor, "batch column width"] | None
    halting: Float[Tensor, "batch column"] | None


@dataclass(frozen=True)
class Trace:
    """All steps of one input. Columns are B, the tokens, E; `states` begins with the embedding."""

    text: str
    columns: tuple[str, ...]
    answer: str
    readout: int
    """the column that is read out"""
    answers: tuple[str, ...]
    states: Float[Tensor, "step_and_start column width"]
    attention: Float[Tensor, "step head target source"]
    gate: Float[Tensor, "step column width"] | None
    halting: Float[Tensor, "step column"] | None
    logits: Float[Tensor, "step_and_start column class"]
    """what the output layer would say of every column, had the network stopped there"""

    @property
    def steps(self) -> int:
        return self.attention.shape[0]

    @property
    def openness(self) -> Float[Tensor, "step column"] | None:
        """How far the gate of each column was open, on average over its width."""
        return None if self.gate is None else self.gate.mean(-1)

    def plot(self, **options: Any) -> Any:
        """Draw the trace; `ndr.view.plot` says which options there are."""
        # The one door that looks down the house: drawing is the view's business, asking for it the user's.
        from ndr.view import plot  # type: ignore[import-not-found,unused-ignore]

        return plot(self, **options)


def stack(records: list[StepRecord], start: Tensor) -> dict[str, Any]:
    """The steps of one input (a batch of one) as tensors over steps."""

    def over_steps(field: str) -> Tensor | None:
        values = [getattr(record, field) for record in records]
        return None if values[0] is None else torch.stack([value[0].float() for value in values]).cpu()

    states = [start[0].float().cpu(), *(record.states[0].float().cpu() for record in records)]
    return {
        "states": torch.stack(states),
        "attention": over_steps("attention"),
        "gate": over_steps("gate"),
        "halting": over_steps("halting"),
    }
