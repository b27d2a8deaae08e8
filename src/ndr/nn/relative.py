"""Softmax attention over content and relative position (Transformer-XL's form), and its mix with absolute position."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ndr.nn.absolute import masked_softmax, softmax_attention_init
from ndr.nn.heads import check_states, head_width, merge_heads, project_heads
from ndr.nn.position import sinusoid


class RelativeAttention(nn.Module):
    """Attention by content and by the offset j − i of the source; `dropout` is applied to both kinds of key."""

    def __init__(self, width: int, heads: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.positional = PositionalAttention(width, heads, dropout=dropout)

    def forward(
        self,
        states: Float[Tensor, "batch column width"],
        key_padding_mask: Bool[Tensor, "batch column"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch column width"], Float[Tensor, "batch head target source"] | None]:
        read = self.positional.read(states, key_padding_mask)
        return read.attend(read.relative(), need_weights)


class AbsoluteRelativeAttention(nn.Module):
    """Appendix B: each target and head chooses, by a gate r, between relative and absolute position (Eqs. 16-17)."""

    def __init__(self, width: int, heads: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.positional = PositionalAttention(width, heads, dropout=dropout)
        self.choose = nn.Linear(width, heads)

    def forward(
        self,
        states: Float[Tensor, "batch column width"],
        key_padding_mask: Bool[Tensor, "batch column"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch column width"], Float[Tensor, "batch head target source"] | None]:
        read = self.positional.read(states, key_padding_mask)
        relative = self.choose(states).sigmoid().transpose(1, 2)[..., None]
        return read.attend(relative * read.relative() + (1 - relative) * read.absolute(), need_weights)


class PositionalAttention(nn.Module):
    """What both share: projections of content and position, the two query biases and the learned scale."""

    def __init__(self, width: int, heads: int, *, dropout: float) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        part = head_width(width, heads)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.project_position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, 1, part))
        self.position_bias = nn.Parameter(torch.zeros(heads, 1, part))
        self.scale = nn.Parameter(torch.tensor(1 / math.sqrt(part)))
        self.merge = nn.Linear(width, width, bias=False)
        self.key_dropout = nn.Dropout(dropout)
        softmax_attention_init(self.project)
        nn.init.xavier_uniform_(self.project_position.weight)

    def read(self, states: Tensor, key_padding_mask: Tensor | None) -> "Reading":
        check_states(states, self.width, key_padding_mask)
        return Reading(self, states, key_padding_mask)


class Reading:
    """One call of a positional attention: its queries, keys and values, and the two kinds of positional score."""

    def __init__(self, attention: PositionalAttention, states: Tensor, key_padding_mask: Tensor | None) -> None:
        self.attention, self.key_padding_mask = attention, key_padding_mask
        query, key, self.value = project_heads(attention.project, states, attention.heads)
        self.columns = states.shape[1]
        self.content = (query + attention.content_bias) @ attention.key_dropout(key).transpose(-1, -2)
        self.position_query = query + attention.position_bias

    def relative(self) -> Float[Tensor, "batch head target source"]:
        """(b, e) and (d, e) of Eq. 17 with p_{j−i}."""
        last = self.columns - 1
        offsets = torch.arange(-last, last + 1, device=self.value.device)
        scores = self.score(offsets)
        position = torch.arange(self.columns, device=self.value.device)
        index = position[None, :] - position[:, None] + last
        return scores.gather(-1, index.expand(*scores.shape[:-1], self.columns))

    def absolute(self) -> Float[Tensor, "batch head target source"]:
        """The same two terms with p_j."""
        return self.score(torch.arange(self.columns, device=self.value.device))

    def score(self, positions: Int[Tensor, " position"]) -> Float[Tensor, "batch head target position"]:
        attention = self.attention
        encoded = sinusoid(positions, attention.width).to(attention.project_position.weight.dtype)
        # One mask for the whole batch, as in the paper's runs.
        keys: Tensor = attention.key_dropout(attention.project_position(encoded))
        per_head = keys.reshape(keys.shape[0], attention.heads, -1).permute(1, 2, 0)
        return self.position_query @ per_head.to(self.value.dtype)

    def attend(self, positional: Tensor, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        logits = (self.content + positional).float() if self.value.dtype != torch.float64 else self.content + positional
        weights = masked_softmax(self.attention.scale * logits, self.key_padding_mask)
        output = self.attention.merge(merge_heads(weights.to(self.value.dtype) @ self.value))
        return output, weights if need_weights else None
