import pytest
import torch
from torch import nn

from ndr.nn import (
    AbsoluteAttention,
    AbsoluteRelativeAttention,
    CopyGate,
    GeometricAttention,
    Layer,
    RelativeAttention,
    ResidualUpdate,
)

ATTENTIONS = [GeometricAttention, RelativeAttention, AbsoluteRelativeAttention, AbsoluteAttention]


@pytest.mark.parametrize("update", [CopyGate, ResidualUpdate])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_any_attention_goes_with_any_update(attention, update):
    torch.manual_seed(0)
    layer = Layer(attention(15, 3), update(15, 11)).double()
    states = torch.randn(2, 7, 15, dtype=torch.float64)
    new, gate, weights = layer(states, need_weights=True)
    read, expected_weights = layer.attention(states, None, True)
    expected, expected_gate = layer.update(states, read)
    torch.testing.assert_close(new, expected, rtol=0, atol=0)
    torch.testing.assert_close(weights, expected_weights, rtol=0, atol=0)
    assert (gate is None) == (expected_gate is None) == (update is ResidualUpdate)
    quiet, _, none = layer(states)
    assert none is None
    torch.testing.assert_close(quiet, new, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_padding_reaches_the_attention(attention):
    torch.manual_seed(0)
    layer = Layer(attention(15, 3), CopyGate(15, 11)).double()
    states = torch.randn(2, 7, 15, dtype=torch.float64)
    padding = (torch.arange(7) >= 5).expand(2, 7)
    torch.testing.assert_close(layer(states, padding)[0][:, :5], layer(states[:, :5])[0], rtol=1e-9, atol=1e-9)


def test_a_part_of_somebody_elses():
    class Neighbour(nn.Module):
        def forward(self, states, key_padding_mask=None, need_weights=False):
            return states.roll(1, dims=1), None

    layer = Layer(Neighbour(), CopyGate(5, 7))
    assert layer(torch.randn(2, 3, 5))[0].shape == (2, 3, 5)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("heads", [4, 0, -3])
def test_heads_that_do_not_divide_the_width(attention, heads):
    with pytest.raises(ValueError, match=f"heads must divide the width: 15 cannot be split into {heads} heads"):
        attention(15, heads)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize(
    ("states", "padding", "error", "words"),
    [
        (torch.zeros(2, 7, 13), None, ValueError, r"states must be \[batch, column, 15\]"),
        (torch.zeros(7, 15), None, ValueError, r"states must be \[batch, column, 15\]"),
        (torch.zeros(2, 7, 15), torch.zeros(7, 2, dtype=torch.bool), ValueError, r"key_padding_mask must be \[2, 7\]"),
        (torch.zeros(2, 7, 15), torch.zeros(2, 7), TypeError, "key_padding_mask must be bool, True where padded"),
        (torch.zeros(2, 7, 15), torch.zeros(2, 7).long(), TypeError, "key_padding_mask must be bool"),
    ],
)
def test_wrong_use_gets_one_sentence(attention, states, padding, error, words):
    with pytest.raises(error, match=words) as caught:
        attention(15, 3)(states, padding)
    assert "\n" not in str(caught.value)


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="droput"):
        GeometricAttention(15, 3, droput=0.1)
    with pytest.raises(TypeError, match="gate_droput"):
        CopyGate(15, 11, gate_droput=0.1)
