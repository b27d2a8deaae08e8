"""All steps of a router's layer in one native call, forward and backward, for training and inference on a processor.

The mathematics is that of `Layer(GeometricAttention, CopyGate)`; only the order of the work differs. Scales and the
first LayerNorm's affine part are folded into the neighbouring products by ordinary torch operations, so autograd
carries their gradients. Columns that are padding take no part and keep their states.
"""

import ctypes
import os
import sys
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ndr import native
from ndr.nn.geometric import GeometricAttention
from ndr.nn.layer import Layer
from ndr.nn.squash import CrispSigmoid
from ndr.nn.update import CopyGate
from ndr.ops.blas import product

# Rows (columns of all sequences together) that a thread takes through all steps at once.
BLOCK = 512
# Columns from which a crisp layer is followed event by event instead of all columns at once.
LONG = 48


class Folded(NamedTuple):
    """The layer's weights with everything that is constant over columns multiplied in."""

    project: Float[Tensor, "projected width"]
    project_bias: Float[Tensor, " projected"]
    merge: Float[Tensor, "width width"]
    inner: Float[Tensor, "wide width"]
    inner_bias: Float[Tensor, " wide"]
    update: Float[Tensor, "width hidden"]
    update_bias: Float[Tensor, " width"]
    gate: Float[Tensor, "width width"]
    gate_bias: Float[Tensor, " width"]
    scale: Float[Tensor, " width"]
    shift: Float[Tensor, " width"]


class Rates(NamedTuple):
    """What is dropped, and the seed that says which."""

    key: float
    dropout: float
    gate: float
    seed: int


class Problem(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in ("sequences", "width", "heads", "hidden", "steps", "threads", "block")),
        ("offsets", ctypes.c_void_p),
        ("blas", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in Folded._fields),
        *((name, ctypes.c_float) for name in ("epsilon", "candidate_epsilon", "stretch", "match_stretch")),
        *((name, ctypes.c_float) for name in ("key_rate", "rate", "gate_rate")),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("states", "output", "saved")),
        ("tolerance", ctypes.c_float),
        ("taken", ctypes.c_void_p),
        ("effort", ctypes.c_void_p),
        ("wake", ctypes.c_void_p),
    )


class Gradient(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("output", "effort", "states", "weights"))


def usable(layer: nn.Module, states: Tensor, key_padding_mask: Tensor | None) -> bool:
    """Whether this layer on these states is one that the native code knows; `NDR_PLAIN=1` always says no."""
    if type(layer) is not Layer or os.environ.get("NDR_PLAIN") or torch.compiler.is_compiling():
        return False
    attention, update = layer.attention, layer.update
    return (
        type(attention) is GeometricAttention
        and not attention.normalise
        and type(update) is CopyGate
        and type(update.candidate) is nn.LayerNorm
        and update.candidate.bias is not None
        and type(update.squash) in (nn.Sigmoid, CrispSigmoid)
        and type(states) in (Tensor, nn.Parameter)
        and all(each.dtype == torch.float32 and each.device.type == "cpu" for each in (states, update.gate.weight))
        and type(update.gate.weight) in (Tensor, nn.Parameter)
        and not torch.is_autocast_enabled("cpu")
        # Native code trusts these; the plain path refuses what does not fit with a sentence.
        and states.dim() == 3
        and states.shape[-1] == attention.width == update.width
        # A single long sequence has more for all threads to do in its attention than in its steps.
        and (states.shape[0] * 256 >= states.shape[1] * torch.get_num_threads() or followed(layer, states))
        # Whoever hooks into a part of the layer wants that part to be called.
        and not any(hooked(module) for module in layer.modules())
        and (key_padding_mask is None or pads_ends(key_padding_mask, states))
        and native.load("nn/steps") is not None
    )


def is_crisp(layer: Layer) -> bool:
    """Whether gates can be exactly shut and matches exactly none."""
    attention, update = layer.attention, layer.update
    return (
        isinstance(attention, GeometricAttention)
        and attention.stretch > 0
        and isinstance(update, CopyGate)
        and isinstance(update.squash, CrispSigmoid)
    )


def followed(layer: Layer, states: Tensor) -> bool:
    """Whether inference would go through this event by event."""
    return states.shape[1] >= LONG and is_crisp(layer) and not (layer.training or torch.is_grad_enabled())


def hooked(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def pads_ends(key_padding_mask: Tensor, states: Tensor) -> bool:
    """Padding follows the real columns: then leaving it out changes no distance."""
    if key_padding_mask.dtype != torch.bool or key_padding_mask.shape != states.shape[:2]:
        return False
    before, after = key_padding_mask[:, :-1], key_padding_mask[:, 1:]
    return key_padding_mask.device == states.device and bool((after >= before).all())


class Ran(NamedTuple):
    states: Float[Tensor, "batch column width"]
    steps: Int[Tensor, " batch"]
    effort: Float[Tensor, "batch column"] | None


def run_steps(
    layer: Layer,
    states: Float[Tensor, "batch column width"],
    key_padding_mask: Bool[Tensor, "batch column"] | None,
    steps: int,
    tolerance: float | None = None,
    wake: Int[Tensor, "batch column"] | None = None,
) -> Ran:
    """The states after all steps, the steps each sequence took, and in training what each column's gates let through.

    Where no gradient is wanted, a sequence is done once a step changes none of its columns by more than this share
    of its state (in root mean square); 0 asks that nothing changes at all. With `wake`, a column leaves out the steps
    before that one.
    """
    batch, columns, width = states.shape
    real = None if key_padding_mask is None or not bool(key_padding_mask.any()) else ~key_padding_mask
    if real is None:
        offsets = torch.arange(batch + 1) * columns
        rows = states.reshape(batch * columns, width)
    else:
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), real.sum(1).cumsum(0)])
        rows = states[real]
    weights = fold(layer)
    if wake is not None:
        wake = (wake.flatten() if real is None else wake[real]).to(torch.int32)
        tolerance = None
    setting = Setting(layer, offsets, steps, wake)
    taken = torch.full((batch,), steps, dtype=torch.int32)
    if torch.is_grad_enabled() and (rows.requires_grad or any(weight.requires_grad for weight in weights)):
        rows, effort = AllSteps.apply(setting, rows, *weights)  # type: ignore[no-untyped-call]
    else:
        effort = None
        rows = setting.infer(rows.contiguous(), weights, -1.0 if tolerance is None else tolerance, taken)
    if real is None:
        return Ran(rows.view(batch, columns, width), taken, None if effort is None else effort.view(batch, columns))
    if effort is not None:
        effort = effort.new_zeros(batch, columns).masked_scatter(real, effort)
    return Ran(states.masked_scatter(real[..., None], rows), taken, effort)


def fold(layer: Layer) -> Folded:
    attention, update = layer.attention, layer.update
    assert isinstance(attention, GeometricAttention) and isinstance(update, CopyGate)
    assert isinstance(update.candidate, nn.LayerNorm)
    width, heads = attention.width, attention.heads
    query, key_value = attention.project.weight[:width], attention.project.weight[width:]
    if attention.direction is None or attention.direction_scale is None:
        direction, side = query.new_zeros(2 * heads, width), attention.bias.expand(2 * heads)
    else:
        direction = attention.direction.weight * attention.direction_scale
        side = attention.direction.bias * attention.direction_scale + attention.bias
    # Rows of a multiple of eight numbers suit the products.
    fill = -2 * heads % 8
    query_bias = attention.query_bias.flatten() * attention.content_scale
    inner = update.inner
    folded = Folded(
        project=torch.cat([query * attention.content_scale, key_value, direction, query.new_zeros(fill, width)]),
        project_bias=torch.cat([query_bias, query.new_zeros(2 * width), side, query.new_zeros(fill)]),
        merge=attention.merge.weight,
        inner=inner.weight * update.norm.weight,
        inner_bias=torch.addmv(inner.bias, inner.weight, update.norm.bias),
        update=update.update.weight,
        update_bias=update.update.bias,
        gate=update.gate.weight,
        gate_bias=update.gate.bias,
        scale=update.candidate.weight,
        shift=update.candidate.bias,
    )
    return Folded(*(weight.contiguous() for weight in folded))


class Setting:
    """Everything but the tensors that gradients flow through. The seed comes from torch's default generator."""

    def __init__(
        self, layer: Layer, offsets: Int[Tensor, " sequences_and_end"], steps: int, wake: Int[Tensor, " row"] | None
    ) -> None:
        attention, update = layer.attention, layer.update
        assert isinstance(attention, GeometricAttention) and isinstance(update, CopyGate)
        assert isinstance(update.candidate, nn.LayerNorm)
        key = attention.key_dropout.p if attention.key_dropout.training else 0.0
        rate = update.dropout.p if update.dropout.training else 0.0
        gate = update.gate_dropout if update.training else 0.0
        seed = int(torch.randint(2**60, ())) if key or rate or gate else 0
        self.offsets, self.threads, self.steps, self.wake = offsets, torch.get_num_threads(), steps, wake
        self.sizes = (attention.width, attention.heads, update.hidden)
        self.numbers = (
            update.norm.eps,
            update.candidate.eps,
            update.squash.stretch if isinstance(update.squash, CrispSigmoid) else 0.0,
            attention.stretch,
        )
        self.rates = Rates(key, rate, gate, seed)
        self.crisp = is_crisp(layer) and wake is None and not (key or rate or gate)
        self.longest = int(offsets.diff().max()) if len(offsets) > 1 else 0

    def problem(
        self,
        states: Tensor,
        output: Tensor,
        weights: tuple[Tensor, ...],
        saved: Tensor | None,
        tolerance: float = -1.0,
        taken: Tensor | None = None,
        effort: Tensor | None = None,
    ) -> Problem:
        return Problem(
            len(self.offsets) - 1,
            *self.sizes,
            self.steps,
            self.threads,
            BLOCK,
            self.offsets.data_ptr(),
            product(torch.float32).value,
            *(weight.data_ptr() for weight in weights),
            *self.numbers,
            *self.rates,
            states.data_ptr(),
            output.data_ptr(),
            None if saved is None else saved.data_ptr(),
            tolerance,
            None if taken is None else taken.data_ptr(),
            None if effort is None else effort.data_ptr(),
            None if self.wake is None else self.wake.data_ptr(),
        )

    def infer(self, rows: Tensor, weights: Folded, tolerance: float, taken: Tensor) -> Tensor:
        output = torch.empty_like(rows)
        problem = self.problem(rows, output, weights, None, tolerance, taken)
        call("follow" if self.longest >= LONG and self.crisp else "forward", problem)
        return output


class AllSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, setting: Setting, rows: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        rows, output = rows.contiguous(), torch.empty_like(rows)
        per_row = size("saved_per_row", setting.problem(rows, output, weights, None))
        saved = POOL.take(per_row * setting.steps * len(rows))
        effort = rows.new_zeros(len(rows))
        call("forward", setting.problem(rows, output, weights, saved, effort=effort))
        ctx.setting = setting
        ctx.save_for_backward(saved, *weights)
        return output, effort

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, output_grad: Tensor, effort_grad: Tensor) -> tuple[Tensor | None, ...]:
        setting: Setting = ctx.setting
        saved, *weights = ctx.saved_tensors
        output_grad, effort_grad = output_grad.contiguous(), effort_grad.contiguous()
        states_grad = torch.empty_like(output_grad)
        problem = setting.problem(output_grad, states_grad, tuple(weights), saved)
        sums = output_grad.new_zeros(setting.threads, size("sums_size", problem))
        gradient = Gradient(output_grad.data_ptr(), effort_grad.data_ptr(), states_grad.data_ptr(), sums.data_ptr())
        call("backward", problem, gradient)
        parts = torch.split(sums.sum(0), [weight.numel() for weight in weights])
        grads = (part.view_as(weight) for part, weight in zip(parts, weights, strict=True))
        return None, states_grad, *grads


class Pool:
    """Room for what a gradient needs, used again once the last gradient that needed it is gone.

    Memory fresh from the system costs more than filling it: it is handed out in small pages, each cleared first.
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, np.dtype[np.float32]]] = []

    def take(self, size: int) -> Float[Tensor, " size"]:
        # An array that only this list (and the question itself) refers to belongs to no tensor any more.
        free = [index for index in range(len(self.arrays)) if sys.getrefcount(self.arrays[index]) == 2]
        for index in free:
            if size <= self.arrays[index].size <= 8 * size:
                return torch.from_numpy(self.arrays[index])
        for index in reversed(free):
            del self.arrays[index]
        self.arrays.append(np.empty(size, dtype=np.float32))
        return torch.from_numpy(self.arrays[-1])


POOL = Pool()


def size(name: str, problem: Problem) -> int:
    function = getattr(native.load("nn/steps"), name)
    function.restype = ctypes.c_long
    return int(function(ctypes.byref(problem)))


def call(name: str, *arguments: ctypes.Structure) -> None:
    getattr(native.load("nn/steps"), name)(*(ctypes.byref(argument) for argument in arguments))
