"""Whole networks: the router and its relatives, the recurrent baselines, and a preset for each row of the paper."""

from ndr.models.dnc import DNC
from ndr.models.encoder import Encoded, Encoder
from ndr.models.network import Network, load
from ndr.models.recurrent import Recurrent
from ndr.models.router import NeuralDataRouter
from ndr.models.settings import (
    Absolute,
    AbsoluteRelative,
    CopyGated,
    DNCSettings,
    Geometric,
    ModelSettings,
    RecurrentSettings,
    Relative,
    Residual,
    RouterSettings,
)
from ndr.models.trace import Trace

__all__ = [
    "DNC",
    "Absolute",
    "AbsoluteRelative",
    "CopyGated",
    "DNCSettings",
    "Encoded",
    "Encoder",
    "Geometric",
    "ModelSettings",
    "Network",
    "NeuralDataRouter",
    "Recurrent",
    "RecurrentSettings",
    "Relative",
    "Residual",
    "RouterSettings",
    "Trace",
    "load",
]
