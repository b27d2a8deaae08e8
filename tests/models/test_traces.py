import pytest
import torch

from ndr.models import CopyGated, Geometric, NeuralDataRouter, Relative, Residual, RouterSettings


def router(**options):
    torch.manual_seed(0)
    parts = {"attention": Geometric(heads=3), "update": CopyGated(hidden=11, dropout=0.5), "steps": 5, "width": 15}
    settings = RouterSettings(tokens=tuple("abcdefg"), answers=("yes", "no"), **(parts | options))
    return NeuralDataRouter(settings)


@pytest.mark.parametrize("readout", ["first", "last"])
def test_a_trace_says_what_every_step_did(readout):
    network = router(readout=readout)
    trace = network.trace("fab")
    assert network.training, "the mode is given back"
    assert trace.text == "fab"
    assert trace.columns == ("B", "f", "a", "b", "E")
    assert trace.readout == (0 if readout == "first" else 4)
    assert trace.steps == 5
    assert trace.states.shape == (6, 5, 15)
    assert trace.attention.shape == (5, 3, 5, 5)
    assert trace.gate.shape == (5, 5, 15)
    assert trace.openness.shape == (5, 5)
    assert trace.logits.shape == (6, 5, 2)
    assert trace.halting is None
    network.eval()
    states = network.embed(network.frame(torch.tensor([[5, 0, 1]]), None)[0])
    torch.testing.assert_close(trace.states[0], states[0])
    for step in range(5):
        states, gate, weights = network.encoder.layer(states, None, True)
        torch.testing.assert_close(trace.states[step + 1], states[0])
        torch.testing.assert_close(trace.gate[step], gate[0])
        torch.testing.assert_close(trace.attention[step], weights[0])
        torch.testing.assert_close(trace.logits[step + 1], network.output(states)[0])
    torch.testing.assert_close(trace.openness, trace.gate.mean(-1))
    assert trace.answer == network.answer(["fab"])[0]
    assert trace.answer == trace.answers[trace.logits[-1, trace.readout].argmax()]


@pytest.mark.parametrize("variant", ["A", "U"])
def test_a_trace_of_halting(variant):
    network = router(attention=Relative(heads=3), update=Residual(hidden=11), halting=variant, steps=17)
    trace = network.trace("fabcde")
    assert trace.gate is None
    assert trace.openness is None
    assert trace.steps <= 17
    assert trace.halting.shape == (trace.steps, 8)
    if variant == "A":
        torch.testing.assert_close(trace.halting.sum(0), torch.ones(8))
    assert trace.answer == network.answer(["fabcde"])[0]


def test_more_steps_on_request():
    assert router().trace("a", steps=31).steps == 31
    assert router(test_steps=9).trace("a").steps == 9
    assert router().trace("").columns == ("B", "E")
