import pytest
import torch
from torch import nn

from ndr.models import Encoder
from ndr.nn import AdaptiveComputationTime, CopyGate, GeometricAttention, Layer, RelativeAttention, ResidualUpdate


def gated(width=15, **options):
    torch.manual_seed(0)
    return Layer(GeometricAttention(width, 3), CopyGate(width, 11, **options))


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(5, 7, 15, generator=generator, dtype=torch.float64).to(dtype)
    lengths = torch.tensor([7, 2, 5, 1, 3])
    return states, torch.arange(7)[None, :] >= lengths[:, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_one_layer_applied_t_times_is_t_calls(steps, masked, dtype):
    """In values and gradients, whichever way the steps are run."""
    layer = gated(bias=0.0).to(dtype)
    states, padding = batch(dtype)
    states.requires_grad_()
    padding = padding if masked else None
    expected = states
    for _ in range(steps):
        expected, _, _ = layer(expected, padding)
    found = Encoder(layer, 13)(states, padding, steps=steps).states
    real = torch.ones(5, 7, dtype=torch.bool) if padding is None else ~padding
    tolerance = {"rtol": 1e-4, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(found[real], expected[real], **tolerance)
    pull = torch.randn(found.shape, generator=torch.Generator().manual_seed(2)).to(dtype) * real[..., None]
    inputs = [states, *layer.parameters()]
    wanted = torch.autograd.grad(expected, inputs, pull)
    for one, other in zip(torch.autograd.grad(found, inputs, pull), wanted, strict=True):
        scale = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one / scale, other / scale, **tolerance)


def test_steps_of_the_encoder_and_of_the_call():
    encoder, (states, _) = Encoder(gated().double(), 3), batch()
    torch.testing.assert_close(encoder(states).states, encoder(states, steps=3).states, rtol=0, atol=0)
    assert encoder(states, steps=4).states.ne(encoder(states).states).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_closed_gates_copy_for_ever(dtype):
    """A column whose gate is shut is the same, bit by bit, after any number of steps."""
    layer = gated().to(dtype)
    nn.init.zeros_(layer.update.gate.weight)
    nn.init.constant_(layer.update.gate.bias, -1e9)
    states, padding = batch(dtype)
    assert Encoder(layer, 97)(states, padding).states.equal(states)


def test_a_record_of_every_step():
    layer, (states, padding) = gated().double(), batch()
    record = []
    encoded = Encoder(layer, 3)(states, padding, record=record)
    assert len(record) == 3
    before = states
    for step in record:
        new, gate, weights = layer(before, padding, True)
        torch.testing.assert_close(step.states, new, rtol=0, atol=0)
        torch.testing.assert_close(step.gate, gate, rtol=0, atol=0)
        torch.testing.assert_close(step.attention, weights, rtol=0, atol=0)
        assert step.halting is None
        before = new
    torch.testing.assert_close(encoded.states, record[-1].states, rtol=0, atol=0)
    assert encoded.remainder is None
    assert encoded.updates is None


def test_asking_for_a_record_changes_nothing():
    encoder, (states, padding) = Encoder(gated(), 5), batch(torch.float32)
    quiet, loud = encoder(states, padding), encoder(states, padding, record=[])
    torch.testing.assert_close(quiet.states[~padding], loud.states[~padding], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", ["A", "U"])
def test_steps_after_the_last_halt_change_nothing(variant):
    torch.manual_seed(0)
    halting = AdaptiveComputationTime(15, variant)
    nn.init.constant_(halting.halt.bias, 1.0)
    encoder = Encoder(Layer(RelativeAttention(15, 3), ResidualUpdate(15, 11)), 40, halting).double()
    states, padding = batch()
    record = []
    long = encoder(states, padding, record=record)
    assert len(record) < 40
    torch.testing.assert_close(encoder(states, padding, steps=400).states, long.states, rtol=0, atol=0)
    # The recorded weights are those the output is made of.
    if variant == "A":
        output = sum(step.halting[..., None] * step.states for step in record)
        torch.testing.assert_close(output, long.states)
        torch.testing.assert_close(sum(step.halting for step in record), (~padding).double())
    assert long.updates[~padding].ge(1).all()
    assert long.updates[padding].eq(0).all()


@pytest.mark.parametrize(
    ("states", "padding", "error", "words"),
    [
        (torch.zeros(4, 7, 13), None, ValueError, r"states must be \[batch, column, 15\]"),
        (torch.zeros(7, 15), None, ValueError, r"states must be \[batch, column, 15\]"),
        (torch.zeros(15), None, ValueError, r"states must be \[batch, column, 15\]"),
        (torch.zeros(4, 7, 15), torch.zeros(7, 4, dtype=torch.bool), ValueError, r"key_padding_mask must be \[4, 7\]"),
        (torch.zeros(4, 7, 15), torch.zeros(4, 7), TypeError, "key_padding_mask must be bool"),
    ],
)
def test_wrong_states_and_masks_never_reach_native_code(states, padding, error, words):
    with pytest.raises(error, match=words):
        Encoder(gated(), 3)(states, padding)


def test_a_mask_with_holes_and_an_all_padded_sequence():
    """Where native code does not know a mask, the plain path does."""
    layer, (states, padding) = gated(bias=0.0), batch(torch.float32)
    padding[0, 2], padding[3] = True, True
    expected = states
    for _ in range(3):
        expected, _, _ = layer(expected, padding)
    found = Encoder(layer, 3)(states, padding).states
    torch.testing.assert_close(found[~padding], expected[~padding], rtol=1e-4, atol=1e-5)
    assert Encoder(layer, 3)(states[:0]).states.shape == (0, 7, 15)


@pytest.mark.parametrize("steps", [0, -3])
def test_steps_below_one_are_refused(steps):
    with pytest.raises(ValueError, match=f"steps must be at least 1, not {steps}"):
        Encoder(gated(), steps)
    with pytest.raises(ValueError, match=f"steps must be at least 1, not {steps}"):
        Encoder(gated(), 3)(torch.zeros(2, 5, 15), steps=steps)
