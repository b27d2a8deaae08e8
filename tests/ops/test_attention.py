"""What every implementation owes: the values and gradients of the oracle, whatever the input."""

from functools import cache

import pytest
import torch

from ndr.ops import IMPLEMENTATIONS, Attended, geometric_attention
from oracle import brute_force, problem

LENGTHS = [*range(1, 13), 50, 257]
DTYPES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(params=["auto", *IMPLEMENTATIONS])
def implementation(request):
    name = request.param
    if name not in ("auto", "reference"):
        query, key, value, side, _ = problem(2, masked=False)
        try:
            geometric_attention(query, key, value, side, implementation=name)
        except (RuntimeError, ImportError) as error:
            pytest.skip(f"{name} does not run here: {error}")
    return name


def differentiable(tensors, dtype=torch.float64):
    return [tensor.detach().to(dtype).requires_grad_() for tensor in tensors]


@cache
def expected(columns, masked, dtype=torch.float64):
    """Output and gradients of the oracle; long inputs are compared at some targets only."""
    *tensors, padding = problem(columns, masked)
    targets = {50: [*range(0, 50, 4), 49], 257: [131 if masked else 256]}.get(columns, list(range(columns)))
    # What low precision rounds is the input of both.
    inputs = differentiable([tensor.to(dtype) for tensor in tensors])
    output, _, _ = brute_force(*inputs, padding, targets)
    pull = torch.randn(output.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    # A lone column depends on nothing.
    gradients = torch.autograd.grad(output, inputs, pull, allow_unused=True, materialize_grads=True)
    return targets, output.detach(), pull, gradients


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("columns", LENGTHS)
def test_values_and_gradients_equal_brute_force(columns, masked, implementation):
    *tensors, padding = problem(columns, masked)
    targets, expected_output, pull, expected_gradients = expected(columns, masked)
    inputs = differentiable(tensors)
    output = geometric_attention(*inputs, padding, implementation=implementation)
    torch.testing.assert_close(output[:, :, targets], expected_output, rtol=1e-10, atol=1e-12)
    gradients = torch.autograd.grad(output[:, :, targets], inputs, pull)
    for name, found, wanted in zip(("query", "key", "value", "side"), gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-11, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES.items())
def test_every_float_dtype(dtype, tolerance, masked, implementation):
    *tensors, padding = problem(11, masked)
    _, expected_output, pull, expected_gradients = expected(11, masked, dtype)
    inputs = differentiable(tensors, dtype)
    output = geometric_attention(*inputs, padding, implementation=implementation)
    assert output.dtype == dtype
    torch.testing.assert_close(output.double(), expected_output, rtol=tolerance, atol=tolerance)
    gradients = torch.autograd.grad(output, inputs, pull.to(dtype))
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        assert found.dtype == dtype
        scale = wanted.abs().max().item()
        torch.testing.assert_close(found.double(), wanted, rtol=2 * tolerance, atol=2 * tolerance * scale)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 5])
def test_gradcheck(columns, normalise, implementation):
    *tensors, padding = problem(columns, masked=True, seed=3)
    inputs = differentiable(tensors)
    padding[0, 0] = False

    def call(*parts):
        return geometric_attention(*parts, padding, normalise=normalise, implementation=implementation)

    # The rows that nothing matches are no business of a normalised gradient: 0 / 1e-12 has none.
    if normalise and columns == 1:
        return
    assert torch.autograd.gradcheck(call, inputs, fast_mode=columns == 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("extreme", [50.0, -50.0, torch.inf, -torch.inf])
def test_extreme_logits_give_finite_values_and_gradients(extreme, dtype, implementation):
    query, key, value, side, _ = problem(13, masked=False)
    side = side.clone()
    side[:, 0] = extreme  # all sources alike
    side[:, 1, :, 0] = extreme  # the left ones
    side[:, 2, ::3, 1] = extreme  # the right ones of some targets
    inputs = differentiable([query, key, value, side], dtype)
    output = geometric_attention(*inputs, implementation=implementation)
    wanted, _, _ = brute_force(query, key, value, side)
    torch.testing.assert_close(output.double(), wanted, rtol=1e-5, atol=1e-6)
    for gradient in torch.autograd.grad(output.square().sum(), inputs):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("extreme", [50.0, -50.0])
def test_extreme_logits_from_content(extreme, implementation):
    """Every second key is met with a logit of ±50, in float32."""
    _, _, value, side, padding = problem(17, masked=True)
    query, key = torch.ones(2, 3, 17, 5), torch.zeros(2, 3, 17, 5)
    key[:, :, ::2] = extreme / 5
    inputs = differentiable([query, key, value, torch.zeros_like(side)], torch.float32)
    output = geometric_attention(*inputs, padding, implementation=implementation)
    wanted, _, _ = brute_force(*(x.detach().double() for x in inputs), padding)
    torch.testing.assert_close(output.double(), wanted, rtol=1e-5, atol=1e-6)
    for gradient in torch.autograd.grad(output.square().sum(), inputs):
        assert gradient.isfinite().all()


def test_one_column_reads_nothing(implementation):
    *tensors, _ = problem(1, masked=False)
    inputs = differentiable(tensors)
    output = geometric_attention(*inputs, implementation=implementation)
    assert output.eq(0).all()
    for gradient in torch.autograd.grad(output.sum(), inputs):
        assert gradient.eq(0).all()


@pytest.mark.parametrize("normalise", [False, True])
def test_a_fully_padded_row_reads_nothing_and_passes_no_gradient(normalise, implementation):
    *tensors, _ = problem(7, masked=False)
    padding = torch.tensor([[False] * 7, [True] * 7])
    inputs = differentiable(tensors)
    output = geometric_attention(*inputs, padding, normalise=normalise, implementation=implementation)
    assert output[1].eq(0).all()
    assert output[0].ne(0).any()
    for gradient in torch.autograd.grad(output.sum(), inputs):
        assert gradient.isfinite().all()
        assert gradient[1].eq(0).all()


def test_padding_is_as_good_as_absence(implementation):
    """Trailing padding, whatever it holds, changes nothing for the real columns."""
    query, key, value, side, _ = problem(11, masked=False)
    padding = (torch.arange(11) >= 7).expand(2, 11)
    padded = geometric_attention(query, key, value, side, padding, implementation=implementation)
    cut = [tensor[:, :, :7] for tensor in (query, key, value, side)]
    alone = geometric_attention(*cut, implementation=implementation)
    torch.testing.assert_close(padded[:, :, :7], alone, rtol=1e-12, atol=1e-14)


def test_non_contiguous_inputs(implementation):
    query, key, value, side, padding = problem(7, masked=True)

    def strided(tensor):
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)

    plain = geometric_attention(query, key, value, side, padding, implementation=implementation)
    wide = side.new_zeros(2, 3, 7, 4)
    wide[..., ::2] = side
    other = geometric_attention(
        strided(query),
        strided(key),
        value.mT.contiguous().mT,
        wide[..., ::2],
        padding.T.contiguous().T,
        implementation=implementation,
    )
    torch.testing.assert_close(other, plain, rtol=1e-12, atol=1e-14)


def test_an_empty_batch(implementation):
    *tensors, _ = problem(5, masked=False)
    assert geometric_attention(*(x[:0] for x in tensors), implementation=implementation).shape == (0, 3, 5, 7)


def test_some_inputs_need_no_gradient(implementation):
    query, key, value, side, padding = problem(5, masked=True)
    wanted = torch.autograd.grad(brute_force(query, key, value.requires_grad_(), side, padding)[0].sum(), value)[0]
    output = geometric_attention(query, key, value, side, padding, implementation=implementation)
    torch.testing.assert_close(torch.autograd.grad(output.sum(), value)[0], wanted, rtol=1e-10, atol=1e-12)


def test_normalised_weights_sum_to_one(implementation):
    query, key, value, side, padding = problem(11, masked=True)
    output, weights, _ = brute_force(query, key, value, side, padding)
    total = weights.sum(-1, keepdim=True)
    found = geometric_attention(query, key, value, side, padding, normalise=True, implementation=implementation)
    torch.testing.assert_close(found, output / total, rtol=1e-10, atol=1e-12)


def test_weights_and_left_over_on_request():
    query, key, value, side, padding = problem(11, masked=True)
    attended = geometric_attention(query, key, value, side, padding, return_weights=True)
    assert isinstance(attended, Attended)
    for found, wanted in zip(attended, brute_force(query, key, value, side, padding), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)
    normalised = geometric_attention(query, key, value, side, padding, normalise=True, return_weights=True)
    torch.testing.assert_close(normalised.weights.sum(-1), torch.ones(2, 3, 11, dtype=torch.float64))
    # The left-over mass is that before rescaling.
    torch.testing.assert_close(normalised.left_over, attended.left_over)


def test_autocast_keeps_logs_in_float32(implementation):
    *tensors, padding = problem(11, masked=True)
    inputs = differentiable(tensors, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = geometric_attention(*inputs, padding, implementation=implementation)
    _, wanted, _, _ = expected(11, True, torch.float32)
    torch.testing.assert_close(output.double(), wanted, rtol=5e-2, atol=5e-2)
    for gradient in torch.autograd.grad(output.float().sum(), inputs):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"query": torch.zeros(2, 3, 11)}, ValueError, r"query must be a float tensor \[batch, head, column, width\]"),
        ({"query": torch.zeros(2, 3, 11, 5, dtype=torch.long)}, ValueError, "query must be a float tensor"),
        ({"key": torch.zeros(2, 3, 13, 5)}, ValueError, r"key must have the shape of query \(2, 3, 11, 5\)"),
        ({"value": torch.zeros(2, 3, 13, 7)}, ValueError, "value must be"),
        ({"side": torch.zeros(2, 3, 11, 3)}, ValueError, r"side must be .* \(left, right\)"),
        ({"key_padding_mask": torch.zeros(2, 11)}, TypeError, "key_padding_mask must be bool"),
        ({"key_padding_mask": torch.zeros(11, 2, dtype=torch.bool)}, ValueError, "key_padding_mask must be"),
        ({"value": torch.zeros(2, 3, 11, 7, device="meta")}, ValueError, "value must be on the device of query cpu"),
        ({"implementation": "referense"}, ValueError, r'not "referense" \(did you mean "reference"\?\)'),
    ],
)
def test_wrong_use_gets_one_sentence(change, error, words, return_weights):
    query, key, value, side, padding = problem(11, masked=True)
    arguments = {"query": query, "key": key, "value": value, "side": side, "key_padding_mask": padding}
    with pytest.raises(error, match=words) as caught:
        geometric_attention(**{**arguments, **change}, return_weights=return_weights)
    assert "\n" not in str(caught.value)
