import math

import pytest
import torch

from ndr.nn import GeometricAttention
from oracle import brute_force


def attention(width=15, heads=3, **options):
    torch.manual_seed(0)
    part = GeometricAttention(width, heads, **options).double()
    with torch.no_grad():
        # Away from the initial zeros and ones, so that a forgotten one shows.
        part.query_bias.normal_()
        part.content_scale.fill_(0.7)
        part.bias.fill_(-0.3)
        if part.direction_scale is not None:
            part.direction_scale.fill_(1.3)
    return part


def by_the_paper(part, states, padding):
    """Eq. 10 head by head, then the oracle for Eqs. 7-8."""
    batch, columns, width = states.shape
    per_head = width // part.heads
    query_matrix, key_matrix, value_matrix = part.project.weight.split(width)
    queries, keys, values, sides = [], [], [], []
    for head in range(part.heads):
        rows = slice(head * per_head, (head + 1) * per_head)
        queries.append(part.content_scale * (states @ query_matrix[rows].T + part.query_bias[head]))
        keys.append(states @ key_matrix[rows].T)
        values.append(states @ value_matrix[rows].T)
        if part.direction is None:
            side = torch.zeros(batch, columns, 2, dtype=states.dtype)
        else:
            both = slice(2 * head, 2 * head + 2)
            side = part.direction_scale * (states @ part.direction.weight[both].T + part.direction.bias[both])
        sides.append(side + part.bias)
    output, weights, _ = brute_force(*(torch.stack(x, 1) for x in (queries, keys, values, sides)), padding)
    if part.normalise:
        total = weights.sum(-1, keepdim=True)
        weights, output = weights / total, output / total
    return torch.cat(list(output.unbind(1)), -1) @ part.merge.weight.T, weights


@pytest.mark.parametrize("options", [{}, {"normalise": True}, {"directional": False}])
@pytest.mark.parametrize("masked", [False, True])
def test_output_weights_and_gradients_follow_eq_10(options, masked):
    part = attention(**options)
    states = torch.randn(2, 7, 15, dtype=torch.float64, requires_grad=True)
    padding = torch.tensor([[False] * 7, [False] * 5 + [True] * 2]) if masked else None
    expected, expected_weights = by_the_paper(part, states, padding)
    pull = torch.randn_like(expected)
    inputs = [states, *part.parameters()]
    wanted = torch.autograd.grad(expected, inputs, pull)
    for need_weights in (False, True):
        output, weights = part(states, padding, need_weights)
        torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-11)
        for found, want in zip(torch.autograd.grad(output, inputs, pull), wanted, strict=True):
            torch.testing.assert_close(found, want, rtol=1e-7, atol=1e-9)
        if need_weights:
            torch.testing.assert_close(weights, expected_weights, rtol=1e-9, atol=1e-12)
        else:
            assert weights is None


def test_sides_left_is_first():
    """A target that only wants its left side does not read from its right."""
    part = attention(width=3, heads=1)
    with torch.no_grad():
        part.project.weight.zero_()
        part.direction.weight.zero_()
        part.direction.bias.copy_(torch.tensor([40.0, -40.0]))
    _, weights = part(torch.randn(1, 5, 3, dtype=torch.float64), need_weights=True)
    expected = torch.zeros(5, 5, dtype=torch.float64)
    for target in range(1, 5):
        expected[target, target - 1] = 1
    torch.testing.assert_close(weights[0, 0], expected, rtol=0, atol=1e-12)


def test_initial_values():
    torch.manual_seed(0)
    part = GeometricAttention(64, 8)
    bound = math.sqrt(6 / (64 + 8))
    for weight in (part.project.weight, part.merge.weight):
        assert 0.97 * bound < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    # The direction is an ordinary Linear of torch.
    assert 0.9 / 8 < part.direction.weight.abs().max() <= 1 / 8
    assert part.direction.bias.ne(0).any()
    assert part.query_bias.eq(0).all()
    assert part.content_scale.item() == pytest.approx(1 / math.sqrt(8))
    assert part.direction_scale.item() == 1
    assert part.bias.item() == 0
    assert part.merge.bias is None
    assert part.project.bias is None


def test_dropout_falls_on_the_keys_alone():
    """D7: with all keys dropped the content says nothing, but direction, bias and values remain."""
    part = attention(dropout=0.5)
    part.key_dropout.p = 1.0
    states = torch.randn(2, 7, 15, dtype=torch.float64)
    dropped, dropped_weights = part.train()(states, need_weights=True)
    with torch.no_grad():
        part.project.weight[15:30].zero_()
    without_keys, weights = part.eval()(states, need_weights=True)
    torch.testing.assert_close(dropped, without_keys, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(dropped_weights, weights, rtol=1e-12, atol=1e-14)


def test_no_dropout_in_evaluation():
    part = attention(dropout=0.5).eval()
    states = torch.randn(2, 7, 15, dtype=torch.float64)
    torch.testing.assert_close(part(states)[0], part(states)[0], rtol=0, atol=0)
    part.train()
    assert part(states)[0].ne(part(states)[0]).any()


@pytest.mark.parametrize("columns", [1, 2])
def test_few_columns(columns):
    output, weights = attention()(torch.randn(3, columns, 15, dtype=torch.float64), need_weights=True)
    assert output.shape == (3, columns, 15)
    assert weights.isfinite().all()
    if columns == 1:
        assert output.eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_dtypes(dtype):
    part, states = attention(), torch.randn(2, 7, 15, dtype=torch.float64)
    expected, _ = part(states)
    output, _ = part.to(dtype)(states.to(dtype))
    assert output.dtype == dtype
    torch.testing.assert_close(output.double(), expected, rtol=0.05, atol=0.1 if dtype != torch.float32 else 1e-5)
