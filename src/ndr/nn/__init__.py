"""The parts of a layer: how columns read (attention), how they take it in (update), how depth ends (halting)."""

from ndr.nn.absolute import AbsoluteAttention
from ndr.nn.geometric import GeometricAttention
from ndr.nn.halting import AdaptiveComputationTime, Halting
from ndr.nn.layer import Layer
from ndr.nn.relative import AbsoluteRelativeAttention, RelativeAttention
from ndr.nn.squash import CrispSigmoid
from ndr.nn.update import CopyGate, ResidualUpdate

__all__ = [
    "AbsoluteAttention",
    "AbsoluteRelativeAttention",
    "AdaptiveComputationTime",
    "CopyGate",
    "CrispSigmoid",
    "GeometricAttention",
    "Halting",
    "Layer",
    "RelativeAttention",
    "ResidualUpdate",
]
