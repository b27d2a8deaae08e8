"""One step of a router: columns read, then take in what they read."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ndr.nn.absolute import AbsoluteAttention
from ndr.nn.geometric import GeometricAttention
from ndr.nn.relative import AbsoluteRelativeAttention, RelativeAttention
from ndr.nn.update import CopyGate, ResidualUpdate

Attention = GeometricAttention | RelativeAttention | AbsoluteRelativeAttention | AbsoluteAttention
Update = CopyGate | ResidualUpdate


class Layer(nn.Module):
    """How columns read × how they take it in. Any module with the same signatures can stand in for either part."""

    def __init__(self, attention: Attention | nn.Module, update: Update | nn.Module) -> None:
        super().__init__()
        self.attention, self.update = attention, update

    def forward(
        self,
        states: Float[Tensor, "batch column width"],
        key_padding_mask: Bool[Tensor, "batch column"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The new states, the gate (None if the update has none) and, on request, the attention weights."""
        read, weights = self.attention(states, key_padding_mask, need_weights)
        states, gate = self.update(states, read)
        return states, gate, weights
