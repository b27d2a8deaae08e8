"""A trace made small enough for the wire."""

import base64

import numpy as np
import torch
from torch import Tensor

from ndr.models.trace import Trace
from ndr.view.contract import PackedTrace


def pack(trace: Trace) -> PackedTrace:
    return PackedTrace(
        text=trace.text,
        columns=trace.columns,
        answers=trace.answers,
        answer=trace.answer,
        readout=trace.readout,
        steps=trace.steps,
        heads=trace.attention.shape[1],
        attention=quantise(trace.attention, np.uint8),
        openness=None if trace.openness is None else quantise(trace.openness, np.uint16),
        change=quantise(change_of(trace.states), np.uint16),
        halting=None if trace.halting is None else quantise(trace.halting, np.uint16),
        readouts=quantise(trace.logits.softmax(-1), np.uint16),
    )


def change_of(states: Tensor) -> Tensor:
    """How much each step changed each column, with or without gates: 0 is a copy, 1 the most there can be."""
    before, after = states[:-1], states[1:]
    sizes = before.norm(dim=-1) + after.norm(dim=-1)
    share: Tensor = (after - before).norm(dim=-1) / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)
    return share


def quantise(values: Tensor, kind: type[np.uint8] | type[np.uint16]) -> str:
    """Numbers in 0..1 as whole numbers of this kind, in base64."""
    top = np.iinfo(kind).max
    whole = (values.clamp(0, 1) * top).round().numpy().astype(np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(whole.tobytes()).decode("ascii")


def restore(packed: str, kind: type[np.uint8] | type[np.uint16], shape: tuple[int, ...]) -> np.ndarray:
    """The numbers back; the page does the same in JavaScript."""
    whole = np.frombuffer(base64.b64decode(packed), np.dtype(kind).newbyteorder("<"))
    return whole.reshape(shape) / np.float32(np.iinfo(kind).max)
