"""How a column takes in what it read: by a copy gate, or by ordinary residual connections."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ndr.ops.attention import describe


class CopyGate(nn.Module):
    """Eqs. 1-5: a column is replaced by its update where its gate is open and copied unchanged where it is closed.

    `hidden` is the inner width of the update's feed-forward (the gate's is `width`); `candidate` bounds the update
    (LayerNorm in the router, tanh in the paper's gated softmax rows); `squash` turns gate logits into openness.
    In training, `gate_dropout` closes the whole gate of a column with this probability, for each step anew.

    >>> gate = CopyGate(width=256, hidden=512)
    >>> states, openness = gate(states, read)
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        gate_dropout: float = 0.0,
        candidate: nn.Module | None = None,
        squash: nn.Module | None = None,
        bias: float = -3.0,
    ) -> None:
        super().__init__()
        if not 0 <= gate_dropout < 1:
            raise ValueError(f"gate_dropout must be in [0, 1), not {gate_dropout}")
        self.width, self.hidden, self.gate_dropout = width, hidden, gate_dropout
        self.norm = nn.LayerNorm(width)
        # The first products of the update's and the gate's feed-forward are one.
        self.inner = nn.Linear(width, hidden + width)
        self.update = nn.Linear(hidden, width)
        self.gate = nn.Linear(width, width)
        self.candidate = nn.LayerNorm(width) if candidate is None else candidate
        self.squash = nn.Sigmoid() if squash is None else squash
        self.dropout = nn.Dropout(dropout)
        gain = math.sqrt(2)
        nn.init.xavier_uniform_(self.inner.weight[:hidden], gain)
        nn.init.xavier_uniform_(self.inner.weight[hidden:], gain)
        # The bias of the update's half starts as in a Linear of its own; both halves have the same fan-in.
        if not isinstance(self.candidate, nn.Tanh):
            nn.init.xavier_uniform_(self.update.weight, 5 / 3)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.constant_(self.gate.bias, bias)

    def forward(
        self, states: Float[Tensor, "batch column width"], read: Float[Tensor, "batch column width"]
    ) -> tuple[Float[Tensor, "batch column width"], Float[Tensor, "batch column width"]]:
        check_pair(states, read, self.width)
        attended = self.norm(states + self.dropout(read))  # Eq. 1
        inner = self.dropout(self.inner(attended).relu())  # Eq. 5, first half
        update = self.candidate(self.update(inner[..., : self.hidden]))  # Eq. 2
        gate = self.squash(self.gate(inner[..., self.hidden :]))  # Eq. 3
        if self.training and self.gate_dropout > 0:
            gate = gate * (torch.rand_like(gate[..., :1]) >= self.gate_dropout)
        return gate * update + (1 - gate) * states, gate  # Eq. 4


class ResidualUpdate(nn.Module):
    """The ordinary Transformer layer, normalised after each residual connection. It has no gate to show."""

    def __init__(self, width: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, hidden)
        self.update = nn.Linear(hidden, width)
        self.norm_after = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.inner.weight, math.sqrt(2))
        nn.init.xavier_uniform_(self.update.weight)

    def forward(
        self, states: Float[Tensor, "batch column width"], read: Float[Tensor, "batch column width"]
    ) -> tuple[Float[Tensor, "batch column width"], None]:
        check_pair(states, read, self.width)
        attended = self.norm(states + self.dropout(read))
        inner = self.dropout(self.inner(attended).relu())
        return self.norm_after(attended + self.dropout(self.update(inner))), None


def check_pair(states: Tensor, read: Tensor, width: int) -> None:
    if states.shape != read.shape or states.shape[-1] != width:
        raise ValueError(
            f"states and read must both be [batch, column, {width}], not {describe(states)} and {describe(read)}"
        )
