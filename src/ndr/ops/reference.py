"""Geometric attention as the paper writes it, in log space. Every faster version answers to this one."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid


def distance_order(columns: int, device: torch.device | None = None) -> Int[Tensor, "target source"]:
    """Eq. 8: the sources of every target from the closest to the farthest; at equal distance the right one first.

    The target itself comes first: it never matches, so its place changes nothing.
    """
    position = torch.arange(columns, device=device)
    offset = position[None, :] - position[:, None]
    return (2 * offset.abs() - (offset > 0).long()).argsort(dim=-1)


def match_logits(
    query: Float[Tensor, "batch head target width"],
    key: Float[Tensor, "batch head source width"],
    side: Float[Tensor, "batch head target 2"],
    key_padding_mask: Bool[Tensor, "batch source"] | None,
) -> Float[Tensor, "batch head target source"]:
    """The argument of the sigmoid in Eqs. 6 and 10, in float32 or better; −inf where a source must not match."""
    position = torch.arange(query.shape[-2], device=query.device)
    offset = position[None, :] - position[:, None]
    # Eq. 9: one number for the sources on the left of a target, one for those on its right.
    direction = torch.where(offset < 0, side[..., :1], side[..., 1:])
    logits = (query @ key.transpose(-1, -2)).to(accumulator(query.dtype)) + direction
    # A_ii = 0, and padding is no source.
    forbidden = offset == 0
    if key_padding_mask is not None:
        forbidden = forbidden | key_padding_mask[:, None, None, :]
    return logits.masked_fill(forbidden, -torch.inf)


def geometric_weights(
    logits: Float[Tensor, "batch head target source"],
    stretch: float = 0.0,
) -> tuple[Float[Tensor, "batch head target source"], Float[Tensor, "batch head target"]]:
    """Eq. 7, A_ij = P_ij · Π_{k closer than j} (1 − P_ik), and the mass Π_k (1 − P_ik) that no source took.

    The product runs in order of distance, so nothing is ever subtracted and nothing cancels. With a `stretch`, P is
    crisp: some sources match exactly, and many not at all.
    """
    order = distance_order(logits.shape[-1], logits.device).expand_as(logits)
    near_to_far = logits.gather(-1, order)
    if stretch > 0:
        match = crisp(near_to_far.sigmoid(), stretch)
        missed = (1 - match).cumprod(-1)
        weights = match * torch.cat([torch.ones_like(missed[..., :1]), missed[..., :-1]], -1)
        return torch.zeros_like(weights).scatter(-1, order, weights), missed[..., -1]
    log_missed = logsigmoid(-near_to_far).cumsum(-1)
    log_missed_before = torch.cat([torch.zeros_like(log_missed[..., :1]), log_missed[..., :-1]], -1)
    weights = (logsigmoid(near_to_far) + log_missed_before).exp()
    return torch.zeros_like(weights).scatter(-1, order, weights), log_missed[..., -1].exp()


def crisp(probability: Tensor, stretch: float) -> Tensor:
    """Stretched beyond 0 and 1 and cut off there, so that what was nearly certain is exactly so."""
    return torch.clamp((1 + 2 * stretch) * probability - stretch, 0.0, 1.0)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Logs, sums and products are taken in float32, or in float64 when the input is."""
    return torch.promote_types(dtype, torch.float32)
