"""One layer, applied step after step to all columns."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ndr.models.trace import StepRecord
from ndr.nn import AdaptiveComputationTime, Layer, fused

# A change of every state by no more than this in one step counts as none. Closed gates leave a sigmoid's last
# traces; states have a size of about 1, and answers differ by far more.
STILL = 1e-3


class Encoded(NamedTuple):
    """The states to read from; with halting, the remainders to be kept small and the updates that were made."""

    states: Float[Tensor, "batch column width"]
    remainder: Float[Tensor, "batch column"] | None
    updates: Float[Tensor, "batch column"] | None
    steps: Int[Tensor, " batch"]
    """that each sequence went through"""


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
        until_still: bool = False,
    ) -> Encoded:
        """Apply the layer; append what each step did to `record` if one is given.

        With `until_still`, `steps` is only a bound: a sequence is done once a step changes none of its real columns.
        """
        steps = self.steps if steps is None else check_steps(steps)
        if record is None and self.halting is None and fused.usable(self.layer, states, key_padding_mask):
            # The same steps in native code, which also leaves out steps that change nothing at all.
            tolerance = STILL if until_still else 0.0
            states, each = fused.run_steps(self.layer, states, key_padding_mask, steps, tolerance)
            return Encoded(states, None, None, each)
        halting = self.halting.start(states, key_padding_mask) if self.halting else None
        taken = 0
        for step in range(steps):
            before = states
            states, gate, weights = self.layer(before, key_padding_mask, record is not None)
            halt = None
            if self.halting and halting:
                halting, halt = self.halting(halting, before, states, last=step == steps - 1)
            if record is not None:
                record.append(StepRecord(states, weights, gate, halt))
            taken = step + 1
            if halting and self.nothing_runs(halting):
                break
            if until_still and is_still(before, states, key_padding_mask):
                break
        each = states.new_full(states.shape[:1], taken, dtype=torch.int32)
        if halting:
            return Encoded(halting.output, halting.remainder, halting.updates, each)
        return Encoded(states, None, None, each)

    def nothing_runs(self, halting: tuple[Tensor, ...]) -> bool:
        """Steps after the last column has halted change nothing; a compiled graph runs them all the same."""
        return not torch.compiler.is_compiling() and bool((halting[0] >= 1).all())


def is_still(before: Tensor, after: Tensor, key_padding_mask: Tensor | None) -> bool:
    """Whether a step changed no real column of the batch; a compiled graph does not ask."""
    if torch.compiler.is_compiling():
        return False
    change = (after - before).abs().amax(-1)
    if key_padding_mask is not None:
        change = change.masked_fill(key_padding_mask, 0)
    return bool((change <= STILL).all())


def check_steps(steps: int) -> int:
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    return steps
