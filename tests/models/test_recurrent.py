import pytest
import torch
from torch import nn

from ndr.models import Recurrent, RecurrentSettings


def network(**options):
    torch.manual_seed(0)
    options = {"hidden": 14, "embedding": 5, "dropout": 0.0} | options
    return Recurrent(RecurrentSettings(tokens=tuple("abcdefg"), answers=("x", "y", "z"), **options)).eval()


def test_one_direction_answers_from_the_last_token():
    """E is read but not answered from: the output stands before it."""
    lstm = network(layers=2)
    embedded = lstm.embedding(torch.tensor([[2, 6, 1]]))
    expected = lstm.output(lstm.lstm(embedded)[0][:, -1])
    torch.testing.assert_close(lstm(torch.tensor([[2, 6, 1]])), expected)
    torch.testing.assert_close(lstm(torch.tensor([[2, 6, 1, 4, 4]]), torch.tensor([3])), expected)


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("readout", ["both-ends", "paper"])
def test_two_directions_answer_from_final_states(layers, readout):
    lstm = network(bidirectional=True, layers=layers, readout=readout)
    _, (final, _) = lstm.lstm(lstm.embedding(torch.tensor([[2, 6, 1, 7]])))
    states = final.view(layers, 2, 1, 7)
    if readout == "both-ends" or layers == 1:
        chosen = [states[-1, 0], states[-1, 1]]
    else:
        # The runs' slip: two backward states, of a middle layer and of the last.
        chosen = [states[layers // 2 - 1, 1], states[-1, 1]]
    expected = lstm.output(torch.cat(chosen, -1))
    torch.testing.assert_close(lstm(torch.tensor([[2, 6, 1]])), expected)


def test_dropout_on_the_embedding_and_between_layers():
    assert network(dropout=0.25, layers=3).lstm.dropout == 0.25
    assert network(dropout=0.25).lstm.dropout == 0.0
    assert network(dropout=0.25).dropout.p == 0.25


def test_every_token_is_learned():
    """No token is a frozen zero vector."""
    embedding = network().embedding
    assert isinstance(embedding, nn.Embedding)
    assert embedding.padding_idx is None
    assert embedding.weight.shape == (8, 5)
    assert embedding.weight.ne(0).any(-1).all()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_an_empty_text_answers_from_e_however_padded(bidirectional):
    lstm = network(bidirectional=bidirectional)
    alone = lstm(torch.zeros(1, 0, dtype=torch.long))
    beside = lstm(torch.tensor([[3, 3, 3], [1, 2, 3]]), torch.tensor([0, 3]))
    torch.testing.assert_close(beside[0], alone[0])


def test_steps_and_odd_sizes_are_refused():
    with pytest.raises(ValueError, match="a recurrent network takes one step per token: steps cannot be chosen"):
        network()(torch.tensor([[1]]), steps=3)
    with pytest.raises(ValueError, match="hidden must be even to be shared by two directions, not 7"):
        network(hidden=7, bidirectional=True)
    with pytest.raises(ValueError, match=r"tokens must be integers \[batch, column\]"):
        network()(torch.zeros(2, 3))
