"""The Triton kernels answer to the reference, run by Triton's interpreter where there is no GPU."""

import os

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    # Read when triton is imported, here for the first time.
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from ndr.ops import geometric_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def problem(columns: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(columns)
    shapes = [(2, 1, columns, 7), (2, 1, columns, 7), (2, 1, columns, 13), (2, 1, columns, 2)]
    return [torch.randn(shape, generator=generator).to(DEVICE, dtype).requires_grad_() for shape in shapes]


def padding(columns: int) -> Tensor:
    mask = torch.zeros(2, columns, dtype=torch.bool, device=DEVICE)
    mask[1, columns // 3] = mask[1, 2 * columns // 3 :] = True
    return mask


def results(inputs: list[Tensor], mask: Tensor | None, implementation: str) -> list[Tensor]:
    output = geometric_attention(*inputs, mask, implementation=implementation)
    seed = torch.linspace(-1, 1, output.numel(), device=DEVICE).view_as(output).to(output.dtype)
    return [output, *torch.autograd.grad(output, inputs, seed)]


@pytest.mark.parametrize("columns", [1, 2, 3, 15, 16, 17, 37, 64])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_the_reference(columns: int, masked: bool) -> None:
    inputs, mask = problem(columns, torch.float32), padding(columns) if masked else None
    for found, wanted in zip(results(inputs, mask, "triton"), results(inputs, mask, "reference"), strict=True):
        # What lies farther out is a difference of sums: its rounding is that of the largest sum.
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=5e-4)


@pytest.mark.parametrize("columns", [131, 300])
def test_long_ones_equal_the_reference(columns: int) -> None:
    """The interpreter is slow, so once each: of the two sequences one is masked."""
    test_equals_the_reference(columns, masked=True)


def test_bfloat16() -> None:
    inputs = problem(37, torch.bfloat16)
    wide = [tensor.detach().float().requires_grad_() for tensor in inputs]
    for found, wanted in zip(results(inputs, None, "triton"), results(wide, None, "reference"), strict=True):
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.float(), wanted, rtol=0.02, atol=0.02)


def test_nothing_to_read() -> None:
    inputs = problem(19, torch.float32)
    output, *grads = results(inputs, torch.ones(2, 19, dtype=torch.bool, device=DEVICE), "triton")
    assert output.abs().max() == 0 and all(grad.isfinite().all() for grad in grads)
