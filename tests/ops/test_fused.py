"""The native attention answers to the reference: values and gradients, every length, mask and precision."""

import sys

import pytest
import torch
from torch import Tensor

from ndr.bench.attention import measure_memory
from ndr.ops import fused, geometric_attention

pytestmark = pytest.mark.skipif(not fused.available(), reason="the native library was not compiled")


def problem(columns: int, dtype: torch.dtype, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(columns)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    # Heads are views into one tensor, as the layer makes them.
    query, key = (draw(3, columns, 2, 7).transpose(1, 2) * scale for _ in range(2))
    inputs = [query, key, draw(3, 2, columns, 13), draw(3, 2, columns, 2)]
    return [tensor.requires_grad_() for tensor in inputs]


def padding(columns: int) -> Tensor:
    """A whole sequence, a hole and a padded end, nothing at all."""
    mask = torch.zeros(3, columns, dtype=torch.bool)
    mask[1, columns // 3] = mask[1, 2 * columns // 3 :] = True
    mask[2] = True
    return mask


def results(
    inputs: list[Tensor], mask: Tensor | None, normalise: bool, implementation: str, stretch: float = 0.0
) -> list[Tensor]:
    output = geometric_attention(*inputs, mask, normalise=normalise, stretch=stretch, implementation=implementation)
    seed = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return [output, *torch.autograd.grad(output, inputs, seed)]


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 16, 17, 31, 64, 67, 131, 257])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("stretch", [0.0, 0.2])
def test_equals_the_reference(columns: int, masked: bool, normalise: bool, stretch: float) -> None:
    inputs = problem(columns, torch.float64)
    mask = padding(columns) if masked else None
    expected = results(inputs, mask, normalise, "reference", stretch)
    for found, wanted in zip(results(inputs, mask, normalise, "fused", stretch), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    single = [tensor.detach().float().requires_grad_() for tensor in inputs]
    for found, wanted in zip(results(single, mask, normalise, "fused", stretch), expected, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=2e-4, atol=2e-5)


def test_gradient_is_the_slope() -> None:
    inputs = problem(5, torch.float64)
    assert torch.autograd.gradcheck(
        lambda *each: geometric_attention(*each, padding(5), implementation="fused"), inputs
    )


def test_right_source_comes_first_at_equal_distance() -> None:
    # Target 1 matches both neighbours with 1/2: the right one takes 1/2, the left one half of what is left.
    zero, value = torch.zeros(1, 1, 3, 1), torch.tensor([[[[1.0], [10.0], [100.0]]]])
    output = geometric_attention(zero, zero, value, torch.zeros(1, 1, 3, 2), implementation="fused")
    assert output[0, 0, 1].item() == 50.25


@pytest.mark.parametrize("logit", [-1e4, -50.0, 50.0, 1e4])
def test_extreme_logits(logit: float) -> None:
    inputs = [tensor.detach() for tensor in problem(19, torch.float32)]
    inputs[3] = torch.full_like(inputs[3], logit)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    for found, wanted in zip(
        results(inputs, None, False, "fused"), results(inputs, None, False, "reference"), strict=True
    ):
        assert found.isfinite().all()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    inputs = [tensor.detach() for tensor in problem(23, dtype)]
    output = geometric_attention(*inputs, implementation="fused")
    assert output.dtype == dtype
    wide = geometric_attention(*(tensor.float() for tensor in inputs), implementation="fused")
    assert torch.equal(output, wide.to(dtype))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_few_heads_are_shared_by_threads(threads: int) -> None:
    inputs = [tensor.detach()[:1, :1].requires_grad_() for tensor in problem(131, torch.float64)]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = results(inputs, None, False, "fused")
        again = results(inputs, None, False, "fused")
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True))
    for one, wanted in zip(found, results(inputs, None, False, "reference"), strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-9, atol=1e-11)


def test_without_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    monkeypatch.setattr(fused, "product", lambda dtype: ctypes.c_void_p(None))
    inputs = problem(131, torch.float64)
    found, wanted = results(inputs, None, False, "fused"), results(inputs, None, False, "reference")
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_linear() -> None:
    assert measure_memory(8192).value < 200
    assert measure_memory(4096).value < 100


def test_chosen_on_processors_and_left_out_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    from ndr.ops.attention import choose

    assert choose(torch.zeros(1)) == "fused"
    monkeypatch.setenv("NDR_PLAIN", "1")
    assert choose(torch.zeros(1)) == "reference"
