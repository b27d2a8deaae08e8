"""Every network on every task at the edge of what its settings allow: finite values and gradients, or one sentence."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from narrow import narrow
from ndr.errors import Refusal
from ndr.models.network import build
from ndr.models.presets import PRESETS
from ndr.tasks.registry import TASKS

DTYPES = [torch.bfloat16, torch.float32, torch.float64]
EXTREMES = {
    "one column": {"columns": 1},
    "a thousand columns": {"columns": 1_000, "steps": 1},
    "one step": {"steps": 1},
    "two hundred steps": {"columns": 3, "steps": 200},
    "heads of width one": {"width": 5, "heads": 5},
    "one channel": {"width": 1, "heads": 1},
}


def has_row(row, task):
    try:
        return bool(PRESETS[row](TASKS[task]))
    except Refusal as refusal:
        assert str(refusal).startswith(f'the paper has no row "{row}" for {task}')
        return False


ROWS = [(row, task) for row in PRESETS for task in TASKS if has_row(row, task)]


def learn(network, task, columns, rows=1):
    """One forward and backward in training mode: the scores, and the gradient of every parameter by its name."""
    tokens = torch.randint(len(task.tokens), (rows, columns))
    scores = network(tokens, torch.full((rows,), columns))
    cross_entropy(scores.to(torch.promote_types(scores.dtype, torch.float32)), torch.zeros(rows).long()).backward()
    return scores, {name: parameter.grad for name, parameter in network.named_parameters()}


def assert_finite(scores, grads, dtype):
    assert scores.dtype == dtype
    assert scores.isfinite().all()
    for name, grad in grads.items():
        assert grad is not None, name
        assert grad.isfinite().all(), name


def applies(row, extreme):
    """Networks that go token by token know no steps or heads."""
    return row not in ("lstm", "bilstm", "dnc") or "column" in extreme


CASES = [
    (row, task, extreme, dtype)
    for row, task in ROWS
    for extreme in EXTREMES
    for dtype in DTYPES
    if applies(row, extreme)
]


@pytest.mark.parametrize(("row", "task", "extreme", "dtype"), CASES)
def test_values_and_gradients_are_finite(row, task, extreme, dtype):
    torch.manual_seed(0)
    sizes = {"columns": 7} | EXTREMES[extreme]
    columns = sizes.pop("columns")
    network = build(narrow(PRESETS[row](TASKS[task]), **sizes)).to(dtype).train()
    assert_finite(*learn(network, TASKS[task], columns), dtype)


def test_a_thousand_columns_through_two_hundred_steps():
    """Both at once, in native code and beside a sequence of one column."""
    torch.manual_seed(0)
    task = TASKS["listops"]
    network = build(narrow(PRESETS["ndr"](task), width=32, heads=1, steps=200)).train()
    tokens = torch.randint(len(task.tokens), (4, 1_000))
    scores = network(tokens, torch.tensor([1_000, 1, 1, 1]))
    scores.logsumexp(-1).sum().backward()
    assert_finite(scores, {name: parameter.grad for name, parameter in network.named_parameters()}, torch.float32)
