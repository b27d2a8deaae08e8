"""However a sequence is given to a network, alone, padded, beside others or through a compiler: the same comes out.

Values and gradients, for sequences that hypothesis chooses.
"""

from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrow import narrow
from ndr.models.network import build
from ndr.models.presets import PRESETS
from ndr.tasks.registry import TASKS

TASK = TASKS["ctl-forward"]
FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
IDS = st.integers(0, len(TASK.tokens) - 1)
SEQUENCES = st.lists(IDS, min_size=1, max_size=17)
DTYPES = st.sampled_from([torch.float32, torch.float64])
TOLERANCE = {torch.float32: {"rtol": 1e-3, "atol": 2e-5}, torch.float64: {"rtol": 1e-9, "atol": 1e-10}}


@cache
def network(row, dtype):
    """Evaluation mode: dropout is drawn by shape, so only without it can different shapes agree."""
    torch.manual_seed(0)
    return build(narrow(PRESETS[row](TASK), width=10, steps=2)).to(dtype).eval()


def padded(sequences, filling, room):
    """One batch, with `filling` behind each sequence, up to `room` columns more than the longest has."""
    lengths = torch.tensor([len(ids) for ids in sequences])
    tokens = torch.full((len(sequences), int(lengths.max()) + room), filling)
    for place, ids in enumerate(sequences):
        tokens[place, : len(ids)] = torch.tensor(ids)
    return tokens, lengths


def pulled(model, parameters, *batches):
    """The scores of all batches, and the gradient of one number that depends on each of them."""
    scores = torch.cat([model(*batch) for batch in batches])
    weights = torch.arange(1, scores.numel() + 1).view_as(scores).sin().to(scores)
    return scores, *torch.autograd.grad((scores * weights).sum(), parameters)


def assert_agree(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        scale = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one / scale, other / scale, **TOLERANCE[other.dtype])


@pytest.mark.parametrize("row", PRESETS)
@FEW
@given(ids=SEQUENCES, filling=IDS, room=st.integers(0, 13), dtype=DTYPES)
def test_padding_changes_nothing(row, ids, filling, room, dtype):
    model = network(row, dtype)
    parameters = list(model.parameters())
    wanted = pulled(model, parameters, (torch.tensor([ids]),))
    assert_agree(pulled(model, parameters, padded([ids], filling, room)), wanted)


@pytest.mark.parametrize("row", PRESETS)
@FEW
@given(sequences=st.lists(SEQUENCES, min_size=2, max_size=5), filling=IDS, dtype=DTYPES)
def test_a_batch_is_its_sequences(row, sequences, filling, dtype):
    model = network(row, dtype)
    parameters = list(model.parameters())
    wanted = pulled(model, parameters, *((torch.tensor([ids]),) for ids in sequences))
    assert_agree(pulled(model, parameters, padded(sequences, filling, 0)), wanted)


@cache
def compiled(row):
    torch._dynamo.reset()
    return torch.compile(network(row, torch.float64), backend="aot_eager", dynamic=False)


@pytest.mark.parametrize("row", PRESETS)
@settings(FEW, max_examples=4)
@given(data=st.data())
def test_a_compiled_network_is_the_network(row, data):
    """One shape, so that it is compiled once; tokens and lengths differ."""
    # Each column of the DNC is captured anew, which takes long.
    rows, columns = 3, 3 if row == "dnc" else 7
    tokens = data.draw(st.lists(IDS, min_size=rows * columns, max_size=rows * columns))
    lengths = data.draw(st.lists(st.integers(1, columns), min_size=rows, max_size=rows))
    batch = torch.tensor(tokens).view(rows, columns), torch.tensor(lengths)
    parameters = list(network(row, torch.float64).parameters())
    assert_agree(pulled(compiled(row), parameters, batch), pulled(network(row, torch.float64), parameters, batch))
