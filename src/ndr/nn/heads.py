"""Splitting the width of a column into heads, and back."""

from jaxtyping import Float
from torch import Tensor, nn

from ndr.ops.attention import check_padding, describe


def head_width(width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise ValueError(f"heads must divide the width: {width} cannot be split into {heads} heads")
    return width // heads


def check_states(states: Tensor, width: int, key_padding_mask: Tensor | None) -> None:
    if states.dim() != 3 or states.shape[-1] != width:
        raise ValueError(f"states must be [batch, column, {width}], not {describe(states)}")
    check_padding(key_padding_mask, states.shape[0], states.shape[1])


def split_heads(merged: Float[Tensor, "batch column width"], heads: int) -> Float[Tensor, "batch head column part"]:
    batch, columns, width = merged.shape
    return merged.reshape(batch, columns, heads, width // heads).transpose(1, 2)


def merge_heads(split: Float[Tensor, "batch head column part"]) -> Float[Tensor, "batch column width"]:
    return split.transpose(1, 2).flatten(-2)


def project_heads(
    projection: nn.Linear, states: Float[Tensor, "batch column width"], heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of every head from one product."""
    query, key, value = projection(states).chunk(3, dim=-1)
    return split_heads(query, heads), split_heads(key, heads), split_heads(value, heads)
