"""Ordinary softmax attention; positions come from a sinusoid added to the embedding."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ndr.nn.heads import check_states, head_width, merge_heads, project_heads


class AbsoluteAttention(nn.Module):
    """Self-attention of the plain Transformer, by torch's scaled_dot_product_attention."""

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        head_width(width, heads)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.merge = nn.Linear(width, width, bias=False)
        softmax_attention_init(self.project)

    def forward(
        self,
        states: Float[Tensor, "batch column width"],
        key_padding_mask: Bool[Tensor, "batch column"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch column width"], Float[Tensor, "batch head target source"] | None]:
        check_states(states, self.width, key_padding_mask)
        query, key, value = project_heads(self.project, states, self.heads)
        allowed = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
        if not need_weights:
            output = scaled_dot_product_attention(query, key, value, attn_mask=allowed)
            return self.merge(merge_heads(output)), None
        weights = masked_softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, key_padding_mask)
        return self.merge(merge_heads(weights.to(value.dtype) @ value)), weights


def masked_softmax(logits: Tensor, key_padding_mask: Tensor | None) -> Tensor:
    """Weights over sources, 0 at padding; a target whose sources are all padding reads nothing."""
    if key_padding_mask is None:
        return logits.softmax(-1)
    padded = key_padding_mask[:, None, None, :]
    lowest = torch.finfo(logits.dtype).min
    return logits.masked_fill(padded, lowest).softmax(-1).masked_fill(padded, 0.0)


def softmax_attention_init(project: nn.Linear) -> None:
    """The paper's runs: Xavier for the query matrix, and for key and value taken as one matrix."""
    width = project.in_features
    nn.init.xavier_uniform_(project.weight[:width])
    nn.init.xavier_uniform_(project.weight[width:])
