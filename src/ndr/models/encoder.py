"""One layer, applied step after step to all columns."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ndr.models.trace import StepRecord
from ndr.nn import AdaptiveComputationTime, Layer


class Encoded(NamedTuple):
    """The states to read from; with halting, the remainders to be kept small and the updates that were made."""

    states: Float[Tensor, "batch column width"]
    remainder: Float[Tensor, "batch column"] | None
    updates: Float[Tensor, "batch column"] | None


class Encoder(nn.Module):
    """The same layer × `steps`. `steps` can be given anew at every call; a record of each step is kept on request."""

    def __init__(self, layer: Layer, steps: int, halting: AdaptiveComputationTime | None = None) -> None:
        super().__init__()
        check_steps(steps)
        self.layer, self.steps, self.halting = layer, steps, halting

    def forward(
        self,
        states: Float[Tensor, "batch column width"],
        key_padding_mask: Bool[Tensor, "batch column"] | None = None,
        *,
        steps: int | None = None,
        record: list[StepRecord] | None = None,
    ) -> Encoded:
        """Apply the layer; append what each step did to `record` if one is given."""
        steps = self.steps if steps is None else check_steps(steps)
        halting = self.halting.start(states, key_padding_mask) if self.halting else None
        for step in range(steps):
            before = states
            states, gate, weights = self.layer(before, key_padding_mask, record is not None)
            halt = None
            if self.halting and halting:
                halting, halt = self.halting(halting, before, states, last=step == steps - 1)
            if record is not None:
                record.append(StepRecord(states, weights, gate, halt))
            if halting and self.nothing_runs(halting):
                break
        if halting:
            return Encoded(halting.output, halting.remainder, halting.updates)
        return Encoded(states, None, None)

    def nothing_runs(self, halting: tuple[Tensor, ...]) -> bool:
        """Steps after the last column has halted change nothing; a compiled graph runs them all the same."""
        return not torch.compiler.is_compiling() and bool((halting[0] >= 1).all())


def check_steps(steps: int) -> int:
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    return steps
