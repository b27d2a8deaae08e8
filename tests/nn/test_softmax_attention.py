"""Absolute, relative and gated absolute/relative attention against Eq. 17 written term by term."""

import math

import pytest
import torch

from ndr.nn import AbsoluteAttention, AbsoluteRelativeAttention, RelativeAttention
from ndr.nn.absolute import masked_softmax
from ndr.nn.position import sinusoid

WIDTH, HEADS, PART = 15, 3, 5


def code(position, width=WIDTH):
    """The sinusoid of Vaswani et al. for one position."""
    channels = []
    for channel in range(width):
        angle = position / 10_000 ** ((channel - channel % 2) / width)
        channels.append(math.sin(angle) if channel % 2 == 0 else math.cos(angle))
    return torch.tensor(channels, dtype=torch.float64)


def make(kind):
    torch.manual_seed(0)
    part = kind(WIDTH, HEADS).double()
    with torch.no_grad():
        if kind is not AbsoluteAttention:
            part.positional.content_bias.normal_()
            part.positional.position_bias.normal_()
            part.positional.scale.fill_(0.6)
    return part


def by_the_paper(part, states, padding):
    shared = getattr(part, "positional", part)
    query_matrix, key_matrix, value_matrix = shared.project.weight.split(WIDTH)
    merged, all_weights = [], []
    for head in range(HEADS):
        rows = slice(head * PART, (head + 1) * PART)
        query, key, value = (states @ matrix[rows].T for matrix in (query_matrix, key_matrix, value_matrix))
        batch, columns, _ = states.shape
        logits = [[None] * columns for _ in range(columns)]
        for i in range(columns):
            for j in range(columns):
                if isinstance(part, AbsoluteAttention):
                    logits[i][j] = (query[:, i] * key[:, j]).sum(-1) / math.sqrt(PART)
                    continue
                # (e) of Eq. 17, with the sign of the offset that the paper's runs used.
                position = code(j - i).expand(batch, WIDTH)
                if isinstance(part, AbsoluteRelativeAttention):
                    chosen = part.choose
                    relative = torch.sigmoid(states[:, i] @ chosen.weight[head] + chosen.bias[head])[:, None]
                    position = relative * code(j - i) + (1 - relative) * code(j)
                position_key = position @ shared.project_position.weight[rows].T
                a_and_c = ((query[:, i] + shared.content_bias[head]) * key[:, j]).sum(-1)
                b_and_d = ((query[:, i] + shared.position_bias[head]) * position_key).sum(-1)
                logits[i][j] = shared.scale * (a_and_c + b_and_d)
        table = torch.stack([torch.stack(row, -1) for row in logits], 1).exp()
        if padding is not None:
            table = table * (~padding)[:, None, :]
        weights = table / table.sum(-1, keepdim=True)
        merged.append(weights @ value)
        all_weights.append(weights)
    return torch.cat(merged, -1) @ shared.merge.weight.T, torch.stack(all_weights, 1)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", [AbsoluteAttention, RelativeAttention, AbsoluteRelativeAttention])
def test_output_weights_and_gradients(kind, masked):
    part = make(kind)
    states = torch.randn(2, 7, WIDTH, dtype=torch.float64, requires_grad=True)
    padding = torch.tensor([[False] * 7, [False] * 5 + [True] * 2]) if masked else None
    expected, expected_weights = by_the_paper(part, states, padding)
    pull = torch.randn_like(expected)
    inputs = [states, *part.parameters()]
    wanted = torch.autograd.grad(expected, inputs, pull)
    for need_weights in (False, True):
        output, weights = part(states, padding, need_weights)
        # The library's sinusoid is float32.
        torch.testing.assert_close(output, expected, rtol=1e-6, atol=1e-6)
        for found, want in zip(torch.autograd.grad(output, inputs, pull), wanted, strict=True):
            torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
        if need_weights:
            torch.testing.assert_close(weights, expected_weights, rtol=1e-6, atol=1e-6)
        else:
            assert weights is None


@pytest.mark.parametrize("width", [7, 16])
def test_sinusoid(width):
    positions = torch.tensor([-5, 0, 1, 13])
    expected = torch.stack([code(position, width) for position in positions.tolist()])
    torch.testing.assert_close(sinusoid(positions, width).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gate", ["relative", "absolute"])
def test_the_gate_of_appendix_b_can_choose_one(gate):
    """With r = 1 it is relative attention; r = 0 knows where a source is, not how far."""
    mixed, relative = make(AbsoluteRelativeAttention), make(RelativeAttention)
    relative.positional.load_state_dict(mixed.positional.state_dict())
    with torch.no_grad():
        mixed.choose.weight.zero_()
        mixed.choose.bias.fill_(80.0 if gate == "relative" else -80.0)
    states = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    if gate == "relative":
        torch.testing.assert_close(mixed(states)[0], relative(states)[0])
    else:
        # Equal contents: with absolute position every target sees the same.
        equal = states[:, :1].expand(-1, 5, -1)
        weights = mixed(equal, need_weights=True)[1]
        torch.testing.assert_close(weights, weights[:, :, :1].expand_as(weights))
        assert weights.std(-1).min() > 1e-3


@pytest.mark.parametrize("kind", [AbsoluteAttention, RelativeAttention, AbsoluteRelativeAttention])
@pytest.mark.parametrize("need_weights", [False, True])
def test_a_fully_padded_row_reads_nothing(kind, need_weights):
    part = make(kind)
    states = torch.randn(2, 5, WIDTH, dtype=torch.float64, requires_grad=True)
    output, _ = part(states, torch.tensor([[False] * 5, [True] * 5]), need_weights)
    assert output[1].eq(0).all()
    gradient = torch.autograd.grad(output.sum(), states)[0]
    assert gradient.isfinite().all()
    assert gradient[1].eq(0).all()


@pytest.mark.parametrize("kind", [AbsoluteAttention, RelativeAttention, AbsoluteRelativeAttention])
def test_one_column_reads_itself(kind):
    part, states = make(kind), torch.randn(2, 1, WIDTH, dtype=torch.float64)
    shared = getattr(part, "positional", part)
    expected = states @ shared.project.weight[2 * WIDTH :].T @ shared.merge.weight.T
    torch.testing.assert_close(part(states)[0], expected)


def test_masked_softmax_survives_extremes():
    logits = torch.tensor([[[[1e4, -1e4, 3e38], [-3e38, -3e38, 0.0]]]], requires_grad=True)
    padding = torch.tensor([[False, False, True]])
    weights = masked_softmax(logits, padding)
    torch.testing.assert_close(weights[0, 0], torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))
    assert torch.autograd.grad(weights[..., 0].sum(), logits)[0].isfinite().all()


@pytest.mark.parametrize("kind", [RelativeAttention, AbsoluteRelativeAttention])
def test_dropout_falls_on_both_kinds_of_key(kind):
    """D7: with all keys dropped, nothing tells the sources apart; values and weights are never dropped."""
    part = make(kind)
    part.positional.key_dropout.p = 1.0
    states = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    output, weights = part.train()(states, need_weights=True)
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 7))
    mean = states.mean(1, keepdim=True) @ part.positional.project.weight[2 * WIDTH :].T
    torch.testing.assert_close(output, (mean @ part.positional.merge.weight.T).expand_as(output))


def test_one_position_mask_for_the_whole_batch():
    """D7: with content keys gone, two equal rows of a batch get equal weights in spite of dropout."""
    part = make(RelativeAttention)
    part.positional.key_dropout.p = 0.5
    with torch.no_grad():
        part.positional.project.weight[WIDTH : 2 * WIDTH].zero_()
    states = torch.randn(1, 7, WIDTH, dtype=torch.float64).expand(2, -1, -1)
    first, second = part.train()(states, need_weights=True)[1]
    torch.testing.assert_close(first, second)
    assert first.ne(part(states, need_weights=True)[1][0]).any()


@pytest.mark.parametrize("kind", [AbsoluteAttention, RelativeAttention, AbsoluteRelativeAttention])
def test_initial_values(kind):
    torch.manual_seed(0)
    part = kind(96, 8)
    shared = getattr(part, "positional", part)
    bounds = {"query": (shared.project.weight[:96], math.sqrt(6 / (96 + 96)))}
    # Key and value are drawn as one matrix of twice the height.
    bounds["key and value"] = (shared.project.weight[96:], math.sqrt(6 / (96 + 2 * 96)))
    bounds["merge"] = (shared.merge.weight, 1 / math.sqrt(96))
    if kind is not AbsoluteAttention:
        bounds["position"] = (shared.project_position.weight, math.sqrt(6 / (96 + 96)))
        assert shared.scale.item() == pytest.approx(1 / math.sqrt(12))
        assert shared.content_bias.eq(0).all()
        assert shared.position_bias.eq(0).all()
    if kind is AbsoluteRelativeAttention:
        bounds["gate"] = (part.choose.weight, 1 / math.sqrt(96))
        assert part.choose.weight.shape == (8, 96)
    for name, (weight, bound) in bounds.items():
        assert 0.97 * bound < weight.abs().max() <= bound, name
