"""The one door to geometric attention: checks the arguments and picks an implementation."""

import math
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, NamedTuple, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ndr.errors import nearest
from ndr.ops import fused
from ndr.ops.reference import geometric_weights, match_logits


class Attended(NamedTuple):
    """What a target read, from whom, and how much of its attention found no match."""

    output: Float[Tensor, "batch head target width"]
    weights: Float[Tensor, "batch head target source"]
    left_over: Float[Tensor, "batch head target"]


def plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    key_padding_mask: Tensor | None,
    normalise: bool,
    stretch: float,
) -> Attended:
    weights, left_over = geometric_weights(match_logits(query, key, side, key_padding_mask), stretch)
    if normalise:
        # The small constant is the paper's runs': a target without any match reads nothing.
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    return Attended(weights.to(value.dtype) @ value, weights, left_over)


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    key_padding_mask: Tensor | None,
    normalise: bool,
    stretch: float,
) -> Tensor:
    return plain(query, key, value, side, key_padding_mask, normalise, stretch).output


def by_triton(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    key_padding_mask: Tensor | None,
    normalise: bool,
    stretch: float,
) -> Tensor:
    # The kernel counts in single precision; of a stretched match its gradient, a difference of sums, would lose too
    # many digits on long inputs.
    if normalise or stretch > 0 or query.dtype == torch.float64:
        return reference(query, key, value, side, key_padding_mask, normalise, stretch)
    # Triton comes with torch for GPUs and is no dependency.
    if not find_spec("triton"):
        raise RuntimeError("the triton implementation needs triton, which comes with torch for GPUs")
    from ndr.ops import triton_kernel

    return triton_kernel.attention(query, key, value, side, key_padding_mask)


IMPLEMENTATIONS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None, bool, float], Tensor]] = {
    "reference": reference,
    "fused": fused.fused,
    "triton": by_triton,
}


@overload
def geometric_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    key_padding_mask: Tensor | None = None,
    *,
    normalise: bool = False,
    stretch: float = 0.0,
    return_weights: Literal[False] = False,
    implementation: str = "auto",
) -> Tensor: ...
@overload
def geometric_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    key_padding_mask: Tensor | None = None,
    *,
    normalise: bool = False,
    stretch: float = 0.0,
    return_weights: Literal[True],
    implementation: str = "auto",
) -> Attended: ...
def geometric_attention(
    query: Float[Tensor, "batch head column width"],
    key: Float[Tensor, "batch head column width"],
    value: Float[Tensor, "batch head column value_width"],
    side: Float[Tensor, "batch head column 2"],
    key_padding_mask: Bool[Tensor, "batch column"] | None = None,
    *,
    normalise: bool = False,
    stretch: float = 0.0,
    return_weights: bool = False,
    implementation: str = "auto",
) -> Tensor | Attended:
    """Read from the closest matching column (Eqs. 6-10 of the paper).

    Column j matches target i with probability σ(query_i · key_j + side_i), where `side` holds two numbers for each
    target: one for the sources on its left (index 0), one for those on its right (index 1). Sources are asked in
    order of distance, the right one first at equal distance; each takes its share of what the closer ones left.
    Any scale belongs into the query. `key_padding_mask` is True where a column is padding, as in torch.

    With `normalise` the weights of each target are rescaled to sum to 1. With a `stretch` the match probability is
    stretched so far beyond 0 and 1 and cut off there: near-certain matches become exact. With `return_weights` the
    weights and the left-over mass (before any rescaling) come back too.
    `implementation` is "auto" or a key of `IMPLEMENTATIONS`.
    """
    check(query, key, value, side, key_padding_mask)
    if not 0 <= stretch < math.inf:
        raise ValueError(f"stretch must be 0 or a positive number, not {stretch}")
    if implementation == "auto":
        implementation = choose(query)
    elif implementation not in IMPLEMENTATIONS:
        hint = nearest(implementation, IMPLEMENTATIONS)
        raise ValueError(
            f'implementation must be "auto" or one of {sorted(IMPLEMENTATIONS)}, not "{implementation}"{hint}'
        )
    if return_weights:
        return plain(query, key, value, side, key_padding_mask, normalise, stretch)
    return IMPLEMENTATIONS[implementation](query, key, value, side, key_padding_mask, normalise, stretch)


def choose(query: Tensor) -> str:
    """The best implementation for this device and size. Graph capture takes the reference: it is plain torch."""
    if torch.compiler.is_compiling() or (query.dtype == torch.float64 and query.device.type != "cpu"):
        return "reference"
    if query.device.type == "cpu":
        return "fused" if fused.available() else "reference"
    # Short sequences fit into one block of the plain version's matrices and gain nothing.
    worthwhile = query.device.type == "cuda" and query.shape[-2] >= 64 and query.shape[-1] <= 128
    return "triton" if worthwhile and find_spec("triton") and not os.environ.get("NDR_PLAIN") else "reference"


def check(query: Tensor, key: Tensor, value: Tensor, side: Tensor, key_padding_mask: Tensor | None) -> None:
    if query.dim() != 4 or not query.dtype.is_floating_point:
        raise ValueError(f"query must be a float tensor [batch, head, column, width], not {describe(query)}")
    batch, _, columns, _ = query.shape
    if key.shape != query.shape:
        raise ValueError(f"key must have the shape of query {tuple(query.shape)}, not {tuple(key.shape)}")
    if value.dim() != 4 or value.shape[:3] != query.shape[:3]:
        raise ValueError(f"value must be {[*query.shape[:3], 'width']}, not {tuple(value.shape)}")
    if side.shape != (*query.shape[:3], 2):
        raise ValueError(f"side must be {[*query.shape[:3], 2]} (left, right), not {tuple(side.shape)}")
    check_padding(key_padding_mask, batch, columns)
    for name, tensor in (("key", key), ("value", value), ("side", side), ("key_padding_mask", key_padding_mask)):
        if tensor is not None and tensor.device != query.device:
            raise ValueError(f"{name} must be on the device of query {query.device}, not on {tensor.device}")


def check_padding(key_padding_mask: Tensor | None, batch: int, columns: int) -> None:
    """Every attention takes the same mask and refuses a wrong one with the same words."""
    if key_padding_mask is None:
        return
    if key_padding_mask.dtype != torch.bool:
        raise TypeError(f"key_padding_mask must be bool, True where padded, not {key_padding_mask.dtype}")
    if key_padding_mask.shape != (batch, columns):
        raise ValueError(
            f"key_padding_mask must be {[batch, columns]} [batch, column], not {tuple(key_padding_mask.shape)}"
        )


def describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"
