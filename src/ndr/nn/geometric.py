"""Geometric attention with directional encoding: each column reads from its closest match."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ndr.nn.heads import check_states, head_width, merge_heads, project_heads
from ndr.ops import geometric_attention


class GeometricAttention(nn.Module):
    """Self-attention to the closest match (Eqs. 6-10).

    `dropout` is applied to the keys, as in the paper's runs. `normalise` rescales the weights of each target to sum
    to 1 (the paper's rows without a gate). Without `directional` the term D of Eqs. 9-10 is left out (an ablation).
    With a `stretch` it reads crisply: near-certain matches are exact. `bias` is γ at the start: below 0, columns
    begin by looking farther.

    >>> attention = GeometricAttention(width=256, heads=4)
    >>> output, weights = attention(states, key_padding_mask=padding, need_weights=True)
    """

    def __init__(
        self,
        width: int,
        heads: int = 1,
        *,
        dropout: float = 0.0,
        normalise: bool = False,
        directional: bool = True,
        stretch: float = 0.0,
        bias: float = 0.0,
    ) -> None:
        super().__init__()
        self.width, self.heads, self.normalise, self.stretch = width, heads, normalise, stretch
        part = head_width(width, heads)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.query_bias = nn.Parameter(torch.zeros(heads, 1, part))
        self.direction = nn.Linear(width, 2 * heads) if directional else None
        # α, β and γ of Eq. 10: one scalar each for all heads.
        self.content_scale = nn.Parameter(torch.tensor(1 / math.sqrt(part)))
        self.direction_scale = nn.Parameter(torch.tensor(1.0)) if directional else None
        self.bias = nn.Parameter(torch.tensor(float(bias)))
        self.merge = nn.Linear(width, width, bias=False)
        self.key_dropout = nn.Dropout(dropout)
        # Xavier's bound with the width of one head as fan-out: larger than usual when there are many heads.
        bound = math.sqrt(6 / (width + part))
        nn.init.uniform_(self.project.weight, -bound, bound)
        nn.init.uniform_(self.merge.weight, -bound, bound)

    def forward(
        self,
        states: Float[Tensor, "batch column width"],
        key_padding_mask: Bool[Tensor, "batch column"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch column width"], Float[Tensor, "batch head target source"] | None]:
        check_states(states, self.width, key_padding_mask)
        query, key, value = project_heads(self.project, states, self.heads)
        query = (query + self.query_bias) * self.content_scale
        key = self.key_dropout(key)
        side = self.side(states).to(query.dtype)
        inputs, how = (query, key, value, side, key_padding_mask), (self.normalise, self.stretch)
        if need_weights:
            output, weights, _ = geometric_attention(*inputs, normalise=how[0], stretch=how[1], return_weights=True)
            return self.merge(merge_heads(output)), weights
        output = geometric_attention(*inputs, normalise=how[0], stretch=how[1])
        return self.merge(merge_heads(output)), None

    def side(self, states: Float[Tensor, "batch column width"]) -> Float[Tensor, "batch head column 2"]:
        """β·D + γ of Eq. 10: what a target adds for sources on its left and on its right."""
        if self.direction is None or self.direction_scale is None:
            batch, columns, _ = states.shape
            return self.bias.expand(batch, self.heads, columns, 2)
        direction: Tensor = self.direction(states).unflatten(-1, (self.heads, 2)).transpose(1, 2)
        return direction * self.direction_scale + self.bias
