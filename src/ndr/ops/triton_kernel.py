# mypy: disable-error-code="name-defined, no-untyped-def, no-untyped-call, untyped-decorator, valid-type"
"""Geometric attention on a GPU: the algorithm of the fused version as Triton kernels.

A program takes a block of targets and walks outwards, a block of distances on both sides at a time. A product with
twice as many sources as targets holds every pair it needs; shifting its rows brings equal distances under each other.
All that a target carries is what is left of its attention. The backward pass walks the same way: Σ g·A of a target is
the product of its output and that output's gradient, so what lies farther out is this sum less what was passed.
Nothing is divided, and no N × N matrix is ever stored. Gradients of keys and values are added up by atomic additions:
their last bits can differ from run to run.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Not an import statement: Triton is no dependency, and whoever comes here has asked whether it is there.
triton = import_module("triton")
tl = import_module("triton.language")

# Targets of a program, and distances of a block.
BLOCK = 16


@triton.jit
def matches(query, keys, padding, base, side, columns, width, index, B: tl.constexpr, D: tl.constexpr):
    """P of the sources from `base` on, brought under each other by distance; and the keys themselves."""
    source = base + tl.arange(0, 2 * B)
    entry = tl.arange(0, D)
    there = (source >= 0) & (source < columns)
    key = tl.load(
        keys + source[:, None] * width + entry[None, :], mask=there[:, None] & (entry < width)[None, :], other=0.0
    ).to(tl.float32)
    there = there & (tl.load(padding + source, mask=there, other=1) == 0)
    logits = tl.dot(query, tl.trans(key), input_precision="ieee") + side[:, None]
    logits = tl.gather(tl.where(there[None, :], logits, float("-inf")), index, 1)
    return 1 / (1 + tl.exp(-logits)), key


@triton.jit
def spread_out(aligned, index, inside):
    """From equal distances under each other back to equal sources."""
    return tl.where(inside, tl.gather(aligned, index, 1), 0.0)


@triton.jit
def before(inclusive, start, B: tl.constexpr):
    """A running product or sum without its own last member."""
    k = tl.broadcast_to(tl.arange(0, B)[None, :], (B, B))
    return tl.where(k == 0, start, tl.gather(inclusive, tl.maximum(k - 1, 0), 1))


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def kernel(
    queries, keys, values, sides, padding, outputs, output_grads, deltas,
    query_grads, key_grads, value_grads, side_grads,
    heads, columns, width, value_width,
    B: tl.constexpr, D: tl.constexpr, V: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(1)
    first = tl.program_id(0) * B
    row, k, c = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :], tl.arange(0, 2 * B)[None, :]
    entry, value_entry = tl.arange(0, D), tl.arange(0, V)
    target = first + tl.arange(0, B)
    real = target < columns
    keys += pair * columns * width
    values += pair * columns * value_width
    padding += (pair // heads) * columns
    at_query = (pair * columns + target)[:, None] * width + entry[None, :]
    at_value = (pair * columns + target)[:, None] * value_width + value_entry[None, :]
    query_mask = real[:, None] & (entry < width)[None, :]
    value_mask = real[:, None] & (value_entry < value_width)[None, :]
    query = tl.load(queries + at_query, mask=query_mask, other=0.0).to(tl.float32)
    left = tl.load(sides + (pair * columns + target) * 2, mask=real, other=0.0).to(tl.float32)
    right = tl.load(sides + (pair * columns + target) * 2 + 1, mask=real, other=0.0).to(tl.float32)
    # Target r's source at distance d + k is column r + k of the block that starts d to the right of the first
    # target, and column r − k + B − 1 of the one that starts B − 1 + d to its left.
    right_index = tl.broadcast_to(row + k, (B, B))
    left_index = tl.broadcast_to(row - k + B - 1, (B, B))
    right_back, left_back = c - row, row + B - 1 - c
    right_inside, left_inside = (right_back >= 0) & (right_back < B), (left_back >= 0) & (left_back < B)
    right_back = tl.minimum(tl.maximum(right_back, 0), B - 1)
    left_back = tl.minimum(tl.maximum(left_back, 0), B - 1)
    rest = tl.full((B,), 1.0, tl.float32)
    if BACKWARD:
        got = tl.load(output_grads + at_value, mask=value_mask, other=0.0).to(tl.float32)
        farther = tl.load(deltas + pair * columns + target, mask=real, other=0.0)
        query_grad = tl.zeros((B, D), tl.float32)
        left_grad = tl.zeros((B,), tl.float32)
        right_grad = tl.zeros((B,), tl.float32)
    else:
        output = tl.zeros((B, V), tl.float32)
    for distance in range(1, columns, B):
        right_base, left_base = first + distance, first - distance - B + 1
        near, right_key = matches(query, keys, padding, right_base, right, columns, width, right_index, B, D)
        far, left_key = matches(query, keys, padding, left_base, left, columns, width, left_index, B, D)
        missed = tl.associative_scan((1 - near) * (1 - far), 1, multiply)
        left_for = before(missed, 1.0, B) * rest[:, None]
        rest = rest * tl.min(missed, 1)
        near_weight = near * left_for
        far_weight = far * left_for * (1 - near)
        near_wide = spread_out(near_weight, right_back, right_inside)
        far_wide = spread_out(far_weight, left_back, left_inside)
        right_source, left_source = right_base + tl.arange(0, 2 * B), left_base + tl.arange(0, 2 * B)
        right_there = (right_source >= 0) & (right_source < columns)
        left_there = (left_source >= 0) & (left_source < columns)
        right_at = right_source[:, None] * value_width + value_entry[None, :]
        left_at = left_source[:, None] * value_width + value_entry[None, :]
        right_value_mask = right_there[:, None] & (value_entry < value_width)[None, :]
        left_value_mask = left_there[:, None] & (value_entry < value_width)[None, :]
        right_value = tl.load(values + right_at, mask=right_value_mask, other=0.0).to(tl.float32)
        left_value = tl.load(values + left_at, mask=left_value_mask, other=0.0).to(tl.float32)
        if BACKWARD:
            near_share = near_weight * tl.gather(
                tl.dot(got, tl.trans(right_value), input_precision="ieee"), right_index, 1
            )
            far_share = far_weight * tl.gather(tl.dot(got, tl.trans(left_value), input_precision="ieee"), left_index, 1)
            passed = tl.cumsum(near_share + far_share, 1)
            after_far = farther[:, None] - passed
            near_grad = near_share * (1 - near) - near * (after_far + far_share)
            far_grad = far_share * (1 - far) - far * after_far
            farther -= tl.sum(near_share + far_share, 1)
            right_grad += tl.sum(near_grad, 1)
            left_grad += tl.sum(far_grad, 1)
            near_grad = spread_out(near_grad, right_back, right_inside)
            far_grad = spread_out(far_grad, left_back, left_inside)
            query_grad += tl.dot(near_grad, right_key, input_precision="ieee")
            query_grad += tl.dot(far_grad, left_key, input_precision="ieee")
            base_key, base_value = key_grads + pair * columns * width, value_grads + pair * columns * value_width
            tl.atomic_add(
                base_key + right_source[:, None] * width + entry[None, :],
                tl.dot(tl.trans(near_grad), query, input_precision="ieee"),
                mask=right_there[:, None] & (entry < width)[None, :],
            )
            tl.atomic_add(
                base_key + left_source[:, None] * width + entry[None, :],
                tl.dot(tl.trans(far_grad), query, input_precision="ieee"),
                mask=left_there[:, None] & (entry < width)[None, :],
            )
            tl.atomic_add(
                base_value + right_at, tl.dot(tl.trans(near_wide), got, input_precision="ieee"), mask=right_value_mask
            )
            tl.atomic_add(
                base_value + left_at, tl.dot(tl.trans(far_wide), got, input_precision="ieee"), mask=left_value_mask
            )
        else:
            output += tl.dot(near_wide, right_value, input_precision="ieee")
            output += tl.dot(far_wide, left_value, input_precision="ieee")
    if BACKWARD:
        tl.store(query_grads + at_query, query_grad, mask=query_mask)
        tl.store(side_grads + (pair * columns + target) * 2, left_grad, mask=real)
        tl.store(side_grads + (pair * columns + target) * 2 + 1, right_grad, mask=real)
    else:
        tl.store(outputs + at_value, output, mask=value_mask)


def launch(
    query: Tensor, key: Tensor, value: Tensor, side: Tensor, padding: Tensor, output: Tensor, *backward: Tensor
) -> None:
    batch, heads, columns, width = query.shape
    grid = (triton.cdiv(columns, BLOCK), batch * heads)
    sizes = (heads, columns, width, value.shape[-1])
    blocks = {"B": BLOCK, "D": room(width), "V": room(value.shape[-1])}
    rest = backward or (output,) * 6
    kernel[grid](query, key, value, side, padding, output, *rest, *sizes, **blocks, BACKWARD=bool(backward))


def room(width: int) -> int:
    """Products of blocks want powers of two, 16 at least."""
    return max(16, int(triton.next_power_of_2(width)))


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, side: Tensor, padding: Tensor | None) -> Tensor:
        inputs = [tensor.contiguous() for tensor in (query, key, value, side)]
        batch, _, columns, _ = query.shape
        none = torch.zeros(batch, columns, dtype=torch.uint8, device=query.device)
        mask = none if padding is None else padding.to(torch.uint8)
        output = torch.empty_like(inputs[2], dtype=torch.float32)
        launch(*inputs, mask, output)
        ctx.save_for_backward(*inputs, mask, output)
        return output.to(value.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, mask, output = ctx.saved_tensors
        output_grad = output_grad.contiguous()
        delta = (output_grad.float() * output).sum(-1)
        grads = [torch.zeros_like(tensor, dtype=torch.float32) for tensor in inputs]
        launch(*inputs, mask, output, output_grad, delta, *grads)
        return *(grad.to(tensor.dtype) for grad, tensor in zip(grads, inputs, strict=True)), None


def attention(query: Tensor, key: Tensor, value: Tensor, side: Tensor, key_padding_mask: Tensor | None) -> Tensor:
    output: Tensor = Attention.apply(query, key, value, side, key_padding_mask)
    return output
