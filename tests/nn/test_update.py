import math

import pytest
import torch
from torch import nn

from ndr.nn import CopyGate, CrispSigmoid, ResidualUpdate
from ndr.nn.update import check_pair

WIDTH, HIDDEN = 7, 11


def normal(x, norm):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + 1e-5) * norm.weight + norm.bias


def pair(columns=5):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(3, columns, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2)]


def make(kind=CopyGate, **options):
    torch.manual_seed(0)
    update = kind(WIDTH, HIDDEN, **options).double()
    with torch.no_grad():
        for parameter in update.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return update


@pytest.mark.parametrize("candidate", [None, nn.Tanh()])
def test_copy_gate_is_eqs_1_to_5(candidate):
    update = make(candidate=candidate)
    states, read = (x.requires_grad_() for x in pair())
    inner, bias = update.inner.weight, update.inner.bias
    attended = normal(read + states, update.norm)
    data = torch.clamp(attended @ inner[:HIDDEN].T + bias[:HIDDEN], min=0) @ update.update.weight.T + update.update.bias
    new = normal(data, update.candidate) if candidate is None else torch.tanh(data)
    gate = torch.clamp(attended @ inner[HIDDEN:].T + bias[HIDDEN:], min=0) @ update.gate.weight.T + update.gate.bias
    openness = torch.sigmoid(gate)
    expected = openness * new + (1 - openness) * states

    found, found_gate = update(states, read)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found_gate, openness)
    inputs, pull = [states, read, *update.parameters()], torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, inputs, pull)
    for one, other in zip(torch.autograd.grad(found, inputs, pull), wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_residual_update_is_the_ordinary_layer():
    update = make(ResidualUpdate)
    states, read = pair()
    attended = normal(read + states, update.norm)
    inner = torch.clamp(attended @ update.inner.weight.T + update.inner.bias, min=0)
    expected = normal(attended + inner @ update.update.weight.T + update.update.bias, update.norm_after)
    found, gate = update(states, read)
    torch.testing.assert_close(found, expected)
    assert gate is None


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_a_closed_gate_copies_exactly_and_an_open_one_replaces(columns):
    states, read = pair(columns)
    closed = make()
    nn.init.zeros_(closed.gate.weight)
    nn.init.constant_(closed.gate.bias, -1e9)
    found, gate = closed(states, read)
    assert gate.eq(0).all()
    assert found.equal(states)
    nn.init.constant_(closed.gate.bias, 1e9)
    found, gate = closed(states, read)
    assert gate.eq(1).all()
    attended = closed.norm(states + read)
    replaced = closed.candidate(closed.update(closed.inner(attended)[..., :HIDDEN].relu()))
    torch.testing.assert_close(found, replaced, rtol=0, atol=1e-14)


def test_crisp_gate_closes_exactly_at_a_finite_logit():
    update = make(squash=CrispSigmoid())
    nn.init.zeros_(update.gate.weight)
    nn.init.constant_(update.gate.bias, -3.0)
    states, read = pair()
    assert update(states, read)[0].equal(states)


def test_crisp_sigmoid_is_exactly_0_and_1_outside_a_band():
    crisp = CrispSigmoid(0.1)
    logits = torch.tensor([-50.0, -3.0, -2.4, -2.3, 0.0, 2.3, 2.4, 3.0, 50.0], requires_grad=True)
    openness = crisp(logits)
    edge = math.log(11)  # where 1.2·σ(x) − 0.1 = 1
    assert openness[logits <= -edge].eq(0).all()
    assert openness[logits >= edge].eq(1).all()
    inside = logits[(logits > -edge) & (logits < edge)]
    torch.testing.assert_close(openness[3:6], 1.2 * torch.sigmoid(inside) - 0.1)
    gradient = torch.autograd.grad(openness.sum(), logits)[0]
    assert gradient[[0, 1, 2, 6, 7, 8]].eq(0).all()
    assert gradient[3:6].gt(0).all()
    with pytest.raises(ValueError, match="stretch must be positive, not 0"):
        CrispSigmoid(0)


def test_gate_dropout_closes_whole_columns_without_rescaling():
    """D8: independently for every sample and column, with the given probability."""
    torch.manual_seed(0)
    update = CopyGate(WIDTH, HIDDEN, gate_dropout=0.1)
    states, read = torch.randn(2, 401, 23, WIDTH).unbind(0)
    open_gate = update.eval()(states, read)[1]
    found, gate = update.train()(states, read)
    closed = gate.eq(0).all(-1)
    assert gate[~closed].equal(open_gate[~closed])
    assert found[closed].equal(states[closed])
    assert closed.float().mean().item() == pytest.approx(0.1, abs=0.012)
    # Neither whole samples nor whole columns fall together.
    assert closed.float().mean(0).max() < 0.2
    assert closed.float().mean(1).max() < 0.6
    assert update.eval()(states, read)[1].ne(0).all()


def test_ordinary_dropout_falls_on_what_was_read_and_inside():
    update = make(dropout=0.5)
    update.dropout.p = 1.0
    states, read = pair()
    found, gate = update.train()(states, read)
    # Everything dropped: only the output biases are left to speak.
    openness = torch.sigmoid(update.gate.bias)
    expected = openness * update.candidate(update.update.bias) + (1 - openness) * states
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gate, openness.expand_as(gate))


def spread(weight, bound):
    return 0.97 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("candidate", [None, nn.Tanh()])
def test_initial_values_of_the_copy_gate(candidate):
    torch.manual_seed(0)
    width, hidden = 64, 96
    update = CopyGate(width, hidden, candidate=candidate)
    root_two = math.sqrt(2)
    assert spread(update.inner.weight[:hidden], root_two * math.sqrt(6 / (width + hidden)))
    assert spread(update.inner.weight[hidden:], root_two * math.sqrt(6 / (width + width)))
    assert spread(update.inner.bias, 1 / math.sqrt(width))
    assert spread(update.gate.weight, math.sqrt(6 / (width + width)))
    assert update.gate.bias.eq(-3).all()
    # The runs' tanh rows keep torch's own start of the second product (section on starts in docs/deviations.md).
    second = 5 / 3 * math.sqrt(6 / (width + hidden)) if candidate is None else 1 / math.sqrt(hidden)
    assert spread(update.update.weight, second)
    assert CopyGate(width, hidden, bias=-1.5).gate.bias.eq(-1.5).all()


def test_initial_values_of_the_residual_update():
    torch.manual_seed(0)
    update = ResidualUpdate(64, 96)
    assert spread(update.inner.weight, math.sqrt(2) * math.sqrt(6 / 160))
    assert spread(update.update.weight, math.sqrt(6 / 160))


@pytest.mark.parametrize("kind", [CopyGate, ResidualUpdate])
def test_wrong_use_gets_one_sentence(kind):
    with pytest.raises(ValueError, match=r"states and read must both be \[batch, column, 7\]"):
        make(kind)(torch.zeros(2, 3, 7), torch.zeros(2, 5, 7))
    with pytest.raises(ValueError, match=r"states and read must both be \[batch, column, 7\]"):
        make(kind)(torch.zeros(2, 3, 5), torch.zeros(2, 3, 5))
    check_pair(torch.zeros(2, 3, 5), torch.zeros(2, 3, 5), 5)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 7.0])
def test_a_wrong_gate_dropout_is_refused(rate):
    with pytest.raises(ValueError, match="gate_dropout must be in"):
        CopyGate(WIDTH, HIDDEN, gate_dropout=rate)
