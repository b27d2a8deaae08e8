"""One layer, applied step after step to all columns."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ndr.errors import Refusal
from ndr.models.trace import StepRecord
from ndr.nn import AdaptiveComputationTime, Layer, fused

# What counts as no change: a tenth of a column's state in one step (in root mean square). A gate that is a sigmoid
# never closes, so solved routers come to rest slowly; one that is cut off at 0 does so exactly and at once.
STILL = 0.1


class Encoded(NamedTuple):
    """The states to read from; with halting, the remainders to be kept small and the updates that were made."""

    states: Float[Tensor, "batch column width"]
    remainder: Float[Tensor, "batch column"] | None
    updates: Float[Tensor, "batch column"] | None
    steps: Int[Tensor, " batch"]
    """that each sequence went through"""
    effort: Float[Tensor, "batch column"] | None = None
    """in training with a copy gate: what a column's gates let through, summed over the steps"""


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
        until_still: bool | float = False,
        wake: Int[Tensor, "batch column"] | None = None,
    ) -> Encoded:
        """Apply the layer; append what each step did to `record` if one is given.

        With `until_still`, `steps` is only a bound: a sequence is done once a step leaves all of its real columns as
        they are, up to `STILL` or the share given. Without it only steps that change nothing at all are left out.
        With `wake`, a column leaves out the steps before that one.
        """
        steps = self.steps if steps is None else check_steps(steps)
        tolerance = STILL if until_still is True else float(until_still)
        if record is None and self.halting is None and fused.usable(self.layer, states, key_padding_mask):
            # The same steps in native code, which also leaves out steps that change nothing at all.
            states, each, effort = fused.run_steps(self.layer, states, key_padding_mask, steps, tolerance, wake)
            return Encoded(states, None, None, each, effort if self.training else None)
        halting = self.halting.start(states, key_padding_mask) if self.halting else None
        taken, efforts = 0, []
        for step in range(steps):
            before = states
            states, gate, weights = self.layer(before, key_padding_mask, record is not None)
            if wake is not None:
                asleep = (step < wake)[..., None]
                states = torch.where(asleep, before, states)
                gate = None if gate is None else gate.masked_fill(asleep, 0.0)
            if self.training and gate is not None:
                efforts.append(gate.mean(-1))
            halt = None
            if self.halting and halting:
                halting, halt = self.halting(halting, before, states, last=step == steps - 1)
            if record is not None:
                record.append(StepRecord(states, weights, gate, halt))
            taken = step + 1
            if halting and self.nothing_runs(halting):
                break
            if until_still is False or (wake is not None and bool((step < wake).any())):
                continue
            if is_still(before, states, key_padding_mask, tolerance):
                break
        each = states.new_full(states.shape[:1], taken, dtype=torch.int32)
        if halting:
            return Encoded(halting.output, halting.remainder, halting.updates, each)
        effort = torch.stack(efforts).sum(0) if efforts else None
        if effort is not None and key_padding_mask is not None:
            effort = effort.masked_fill(key_padding_mask, 0.0)
        return Encoded(states, None, None, each, effort)

    def nothing_runs(self, halting: tuple[Tensor, ...]) -> bool:
        """Steps after the last column has halted change nothing; a compiled graph runs them all the same."""
        return not torch.compiler.is_compiling() and bool((halting[0] >= 1).all())


def is_still(before: Tensor, after: Tensor, key_padding_mask: Tensor | None, tolerance: float) -> bool:
    """Whether a step left every real column of the batch as it was; a compiled graph does not ask."""
    if torch.compiler.is_compiling():
        return False
    moved = (after - before).square().sum(-1) > tolerance**2 * after.square().sum(-1)
    return not bool((moved if key_padding_mask is None else moved & ~key_padding_mask).any())


def check_steps(steps: int) -> int:
    if steps < 1:
        raise Refusal(f"steps must be at least 1, not {steps}")
    return steps
