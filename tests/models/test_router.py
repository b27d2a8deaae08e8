import math

import pytest
import torch
from pydantic import ValidationError

from ndr.models import Absolute, CopyGated, Geometric, NeuralDataRouter, Relative, Residual, RouterSettings
from ndr.nn import CrispSigmoid
from ndr.nn.position import sinusoid


def router(**options):
    torch.manual_seed(0)
    parts = {"attention": Geometric(heads=3), "update": CopyGated(hidden=11), "steps": 5, "width": 15} | options
    return NeuralDataRouter(RouterSettings(tokens=tuple("abcdefg"), answers=("yes", "no", "maybe"), **parts))


TOKENS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 0, 0, 0]])
LENGTHS = torch.tensor([5, 2])


def test_columns_are_b_tokens_e_padding():
    columns, padding = router().frame(TOKENS, LENGTHS)
    end, begin = 7, 8
    assert columns.tolist() == [[begin, 3, 1, 4, 1, 5, end], [begin, 2, 6, end, 0, 0, 0]]
    assert padding.tolist() == [[False] * 7, [False] * 4 + [True] * 3]
    columns, padding = router().frame(TOKENS, None)
    assert columns[1].tolist() == [begin, 2, 6, 0, 0, 0, end]
    assert padding is None


@pytest.mark.parametrize("readout", ["first", "last"])
def test_the_story_in_order(readout):
    """Embedding, the same layer × steps, readout: by hand."""
    network = router(readout=readout).double().eval()
    states = network.embedding(torch.tensor([[8, 3, 1, 4, 7]]))
    for _ in range(5):
        states, _, _ = network.encoder.layer(states)
    expected = network.output(states[:, 0 if readout == "first" else 4])
    torch.testing.assert_close(network(torch.tensor([[3, 1, 4]])), expected)
    padded = network(torch.tensor([[3, 1, 4, 0, 0]]), torch.tensor([3]))
    torch.testing.assert_close(padded, expected)


def test_absolute_positions_are_added_to_the_embedding():
    network = router(attention=Absolute(heads=3), update=Residual(hidden=11)).eval()
    columns, _ = network.frame(TOKENS, None)
    expected = network.embedding(columns) + sinusoid(torch.arange(7), 15)
    torch.testing.assert_close(network.embed(columns), expected)
    # In training a tenth is dropped, whatever the other rates are.
    dropped = network.train().embed(columns.repeat(50, 1)).eq(0).float().mean()
    assert dropped.item() == pytest.approx(0.1, abs=0.02)
    plain = router().train()
    assert plain.embed(columns).equal(plain.embedding(columns))


def test_steps_in_training_at_test_and_on_request():
    network = router(test_steps=9)
    assert network.train().steps_now(None) == 5
    assert network.eval().steps_now(None) == 9
    assert network.steps_now(2) == 2
    assert router().eval().steps_now(None) == 5
    torch.testing.assert_close(network(TOKENS), network(TOKENS, steps=9))
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        network(TOKENS, steps=0)


def test_longer_inputs_can_take_more_steps():
    network = router(test_steps=4, steps_per_column=1.5)
    assert network.train().steps_now(None, 10) == 5
    assert [network.eval().steps_now(None, columns) for columns in (1, 3, 10)] == [4, 5, 15]
    assert network.steps_now(2, 10) == 2


def test_the_remainder_is_the_mean_over_the_padded_batch():
    network = router(attention=Relative(heads=3), update=Residual(hidden=11), halting="A")
    logits, remainder, *_ = network.classify(TOKENS, LENGTHS)
    columns, padding = network.frame(TOKENS, LENGTHS)
    encoded = network.encoder(network.embed(columns), padding)
    torch.testing.assert_close(remainder, encoded.remainder.sum() / (2 * 7))
    assert encoded.remainder[padding].eq(0).all()
    torch.testing.assert_close(network(TOKENS, LENGTHS), logits)


def test_training_tells_what_gates_let_through(monkeypatch):
    network = router(attention=Geometric(heads=3, dropout=0.0)).train()
    _, effort, *_ = network.classify(TOKENS, LENGTHS, steps=3)
    monkeypatch.setenv("NDR_PLAIN", "1")
    _, plain, *_ = network.classify(TOKENS, LENGTHS, steps=3)
    torch.testing.assert_close(effort, plain)
    assert 0 < effort < 3
    monkeypatch.delenv("NDR_PLAIN")
    assert network.eval().classify(TOKENS, LENGTHS).cost is None


def test_at_rest_only_the_effort_of_the_steps_that_follow_counts():
    gate = CopyGated(hidden=11, dropout=0.0, gate_dropout=0.0)
    network = router(attention=Geometric(heads=3, dropout=0.0), update=gate).train()
    answers, rest, *_ = network.classify(TOKENS, LENGTHS, steps=3, rest=4)
    (same, all_steps, *_), (_, first_steps, *_) = (network.classify(TOKENS, LENGTHS, steps=count) for count in (7, 3))
    torch.testing.assert_close(answers, same)
    torch.testing.assert_close(rest, all_steps - first_steps)


def test_answers_in_words_and_in_evaluation_mode():
    network = router(update=CopyGated(hidden=11, dropout=0.5)).train()
    answers = network.answer(["abc", "g", "", " a b  c "])
    assert network.training
    network.eval()
    assert answers[0] == answers[3]
    expected = network(torch.tensor([[0, 1, 2]])).argmax().item()
    assert answers[0] == ("yes", "no", "maybe")[expected]
    assert network.answer([]) == []
    assert network.answer([""]) == [answers[2]]
    with pytest.raises(ValueError, match='unknown symbol "x" at 2'):
        network.answer(["ab", "abx"])


@pytest.mark.parametrize("how", ["normal", "kaiming", "xavier"])
def test_how_the_embedding_is_drawn(how):
    weight = router(embedding=how, width=900, attention=Geometric(heads=1), update=CopyGated(hidden=1)).embedding.weight
    bound = math.sqrt(6 / (9 + 900))
    std = {"normal": 1.0, "kaiming": math.sqrt(2 / 900), "xavier": bound / math.sqrt(3)}[how]
    assert weight.std().item() == pytest.approx(std, rel=0.05)
    if how == "xavier":
        assert weight.abs().max() <= bound


def test_the_output_layer_is_torchs_own():
    assert router().output.weight.abs().max() <= 1 / math.sqrt(15)


def test_options_reach_their_parts():
    update = CopyGated(hidden=11, candidate="tanh", squash="crisp", bias=-2.0, gate_dropout=0.25, dropout=0.5)
    attention = Geometric(heads=5, dropout=0.3, normalise=True, directional=False)
    layer = router(update=update, attention=attention).encoder.layer
    assert isinstance(layer.update.candidate, torch.nn.Tanh)
    assert isinstance(layer.update.squash, CrispSigmoid)
    assert layer.update.gate.bias.eq(-2).all()
    assert (layer.update.gate_dropout, layer.update.dropout.p) == (0.25, 0.5)
    assert (layer.attention.heads, layer.attention.key_dropout.p, layer.attention.normalise) == (5, 0.3, True)
    assert layer.attention.direction is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention": Geometric(heads=4)}, "width 15 cannot be split into 4 heads"),
        ({"step": 5}, "Extra inputs are not permitted"),
        ({"steps": 0}, "greater than or equal to 1"),
        ({"readout": "middle"}, "'first' or 'last'"),
        ({"halting": "B"}, "'A' or 'U'"),
        ({"width": 10**9}, "less than or equal to"),
        ({"attention": {"kind": "geometrical"}}, "does not match any of the expected tags"),
        ({"attention": {"kind": "absolute", "normalise": True}}, "Extra inputs are not permitted"),
    ],
)
def test_settings_that_make_no_network(options, words):
    with pytest.raises(ValidationError, match=words):
        router(**options)


@pytest.mark.parametrize("words", [{"tokens": ()}, {"answers": ()}, {"tokens": ("a", "a")}, {"tokens": ("a", "")}])
def test_words_that_make_no_vocabulary(words):
    with pytest.raises(ValidationError):
        RouterSettings(**({"tokens": ("a", "b"), "answers": ("c",)} | words))


@pytest.mark.parametrize(
    ("tokens", "lengths", "words"),
    [
        (torch.zeros(5, dtype=torch.long), None, r"tokens must be integers \[batch, column\]"),
        (torch.zeros(2, 5), None, r"tokens must be integers \[batch, column\]"),
        (TOKENS, torch.tensor([5]), r"lengths must be integers \[2\], one for each row of tokens"),
        (TOKENS, torch.tensor([5.0, 2.0]), r"lengths must be integers \[2\]"),
    ],
)
def test_wrong_tokens_get_one_sentence(tokens, lengths, words):
    with pytest.raises(ValueError, match=words):
        router()(tokens, lengths)


def test_a_column_can_be_asked_instead_of_the_readout():
    network = router().eval()
    logits, _, read = network.classify(TOKENS, steps=3, ask=1)
    states = network.encoder(network.embed(network.frame(TOKENS, None)[0]), steps=3).states
    torch.testing.assert_close(logits, network.score(states[:, 2]))
    torch.testing.assert_close(read, states[:, 2])
    assert not logits.allclose(network(TOKENS, steps=3))
