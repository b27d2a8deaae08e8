"""The sinusoidal code of a position."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor


def sinusoid(positions: Int[Tensor, " position"], width: int) -> Float[Tensor, "position width"]:
    """Sine in even and cosine in odd channels, wavelengths from 2π to 10000·2π."""
    rates = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10_000) / width))
    angles = positions[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :width]
