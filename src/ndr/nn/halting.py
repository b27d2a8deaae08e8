"""Adaptive computation time: each column decides at which steps its state is read out (Appendix A, Eqs. 11-15)."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

THRESHOLD = 0.99


class Halting(NamedTuple):
    """How far every column has come: spent mass, remainder R, number of updates, and the output gathered so far."""

    mass: Float[Tensor, "batch column"]
    remainder: Float[Tensor, "batch column"]
    updates: Float[Tensor, "batch column"]
    output: Float[Tensor, "batch column width"]


class AdaptiveComputationTime(nn.Module):
    """Halting in variant "A" (Graves: the weights of a column sum to 1) or "U" (as in Universal Transformers).

    In both, columns go on being updated after they halt; only what is read out of them stops changing.
    """

    def __init__(self, width: int, variant: Literal["A", "U"] = "A") -> None:
        super().__init__()
        if variant not in ("A", "U"):
            raise ValueError(f'variant must be "A" or "U", not "{variant}"')
        self.variant = variant
        self.halt = nn.Linear(width, 1)

    def start(
        self,
        states: Float[Tensor, "batch column width"],
        key_padding_mask: Bool[Tensor, "batch column"] | None,
    ) -> Halting:
        zeros = torch.zeros_like(states[..., 0], dtype=torch.promote_types(states.dtype, torch.float32))
        # Padding has nothing to compute: it starts halted.
        mass = zeros if key_padding_mask is None else key_padding_mask.to(zeros.dtype)
        return Halting(mass, zeros, zeros, torch.zeros_like(states))

    def forward(
        self,
        halting: Halting,
        before: Float[Tensor, "batch column width"],
        after: Float[Tensor, "batch column width"],
        last: bool,
    ) -> tuple[Halting, Float[Tensor, "batch column"]]:
        """One step: the decision is made on the state before the layer, the weight goes to the state after it."""
        mass, remainder, updates, output = halting
        probability = self.halt(before)[..., 0].sigmoid().to(mass.dtype)
        running = mass < 1
        halts = running & ((mass + probability > THRESHOLD) | (last and self.variant == "A"))
        rest = (1 - mass) * halts
        weight = probability * (running & ~halts) + rest
        share = weight[..., None].to(after.dtype)
        output = output + share * after if self.variant == "A" else output * (1 - share) + share * after
        # A halted column is marked by exactly 1, whatever rounding says.
        mass = torch.where(halts, torch.ones_like(mass), mass + weight)
        return Halting(mass, remainder + rest, updates + running.to(updates.dtype), output), weight
