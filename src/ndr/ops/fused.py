"""Geometric attention on a processor: one exponential per pair, memory that grows with the length only."""

import ctypes
import os
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ndr import native
from ndr.ops.blas import product
from ndr.ops.reference import accumulator, geometric_weights, match_logits

SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


class Strided(ctypes.Structure):
    """A tensor [batch, head, column, width] whose last axis is dense."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("batch", ctypes.c_long),
        ("head", ctypes.c_long),
        ("column", ctypes.c_long),
    )


class Problem(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in ("batch", "heads", "columns", "width", "value_width", "threads")),
        *((name, Strided) for name in ("query", "key", "value", "side")),
        ("padding", ctypes.c_void_p),
        ("output", Strided),
        ("taken", ctypes.c_void_p),
        ("stretch", ctypes.c_double),
    )


class Gradients(ctypes.Structure):
    _fields_ = tuple((name, Strided) for name in ("output", "query", "key", "value", "side"))


def available() -> bool:
    """Whether the native library can be used; `NDR_PLAIN=1` keeps everything in plain torch."""
    return not os.environ.get("NDR_PLAIN") and native.load("ops/geometric") is not None


def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    key_padding_mask: Tensor | None,
    normalise: bool,
    stretch: float,
) -> Tensor:
    """As the reference, in native code; numbers of lower precision are computed in float32."""
    if query.device.type != "cpu" or not available():
        raise RuntimeError('the "fused" attention needs tensors on the CPU and the library that the install compiles')
    if query.numel() == 0 or value.numel() == 0:
        # Nothing to divide among threads.
        return geometric_weights(match_logits(query, key, side, key_padding_mask), stretch)[0].to(value.dtype) @ value
    wide = accumulator(query.dtype)
    inputs = [tensor.to(wide) for tensor in (query, key, value, side)]
    output: Tensor = Fused.apply(*inputs, key_padding_mask, normalise, stretch)  # type: ignore[no-untyped-call]
    return output.to(value.dtype)


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        side: Tensor,
        key_padding_mask: Tensor | None,
        normalise: bool,
        stretch: float,
    ) -> Tensor:
        query, key, value, side = dense(query), dense(key), dense(value), dense(side)
        padding = None if key_padding_mask is None else key_padding_mask.contiguous()
        output = by_column(value)
        taken = query.new_empty(query.shape[:3]) if normalise else None
        problem = describe(query, key, value, side, padding, output, taken, stretch)
        call("forward", query.dtype, problem)
        ctx.stretch = stretch
        ctx.save_for_backward(query, key, value, side, padding, output, taken)
        return output

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, output_grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, side, padding, output, taken = ctx.saved_tensors
        output_grad = dense(output_grad)
        grads = tuple(by_column(tensor) for tensor in (query, key, value, side))
        problem = describe(query, key, value, side, padding, output, taken, ctx.stretch)
        call("backward", query.dtype, problem, Gradients(*map(strided, (output_grad, *grads))))
        return *grads, None, None, None


def dense(tensor: Tensor) -> Tensor:
    """Itself if its last axis is dense and no axis is repeated, otherwise a copy."""
    fits = tensor.stride(-1) == 1 and all(stride > 0 for stride in tensor.stride())
    return tensor if fits else tensor.contiguous()


def by_column(like: Tensor) -> Tensor:
    """Room for a result in which the heads of a column lie side by side, so that merging them moves nothing."""
    batch, heads, columns, width = like.shape
    return like.new_empty(batch, columns, heads, width).transpose(1, 2)


def strided(tensor: Tensor) -> Strided:
    return Strided(tensor.data_ptr(), *tensor.stride()[:3])


def describe(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    padding: Tensor | None,
    output: Tensor,
    taken: Tensor | None,
    stretch: float,
) -> Problem:
    return Problem(
        *query.shape,
        value.shape[-1],
        torch.get_num_threads(),
        *map(strided, (query, key, value, side)),
        None if padding is None else padding.data_ptr(),
        strided(output),
        None if taken is None else taken.data_ptr(),
        stretch,
    )


def call(name: str, dtype: torch.dtype, *arguments: ctypes.Structure) -> None:
    function = getattr(native.load("ops/geometric"), f"{name}_{SUFFIX[dtype]}")
    function(product(dtype), *(ctypes.byref(argument) for argument in arguments))
