"""Every row of the paper builds, has the paper's size, learns a step, and survives padding, autocast and capture."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from ndr.errors import Refusal
from ndr.models import NeuralDataRouter
from ndr.models.network import build
from ndr.models.presets import PRESETS
from ndr.tasks.registry import get_task
from stand_ins import TASKS

# Counted on the models of the paper's runs, without what they never use.
COUNTS = {
    ("ndr", "ctl"): 665_869,
    ("ndr", "arithmetic"): 929_301,
    ("ndr", "listops"): 2_656_813,
    ("rel-gate", "ctl"): 993_289,
    ("absrel-gate", "ctl"): 993_546,
    ("absrel-gate", "arithmetic"): 993_551,
    ("absrel-gate", "listops"): 3_959_835,
    ("transformer", "ctl"): 135_688,
    ("transformer", "arithmetic"): 135_306,
    ("transformer", "listops"): 795_658,
    ("rel", "ctl"): 152_329,
    ("rel", "arithmetic"): 151_947,
    ("rel", "listops"): 861_707,
}
EVERYWHERE = ("lstm", "bilstm", "transformer", "rel", "absrel-gate", "ndr")
ROWS = [(row, task) for row in PRESETS for task in TASKS if task == "ctl" or row in EVERYWHERE]
ROUTERS = [row for row in PRESETS if row not in ("lstm", "bilstm", "dnc")]


def batch(task="ctl", rows=3, columns=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(len(TASKS[task].tokens), (rows, columns), generator=generator)
    lengths = torch.tensor([columns, *torch.randint(1, columns, (rows - 1,), generator=generator).tolist()])
    return tokens, lengths


def small(row, steps=None):
    """The preset of a row; one step, or two with halting, are enough to see whether a graph can be captured."""
    steps = steps or (2 if "act" in row else 1)
    torch.manual_seed(0)
    settings = PRESETS[row](TASKS["ctl"])
    return build(settings.model_copy(update={"steps": steps}) if row in ROUTERS else settings)


@pytest.mark.parametrize(("row", "task"), COUNTS)
def test_number_of_parameters(row, task):
    network = build(PRESETS[row](TASKS[task]))
    assert sum(parameter.numel() for parameter in network.parameters()) == COUNTS[row, task]


@pytest.mark.parametrize(("row", "task"), COUNTS)
def test_the_same_with_the_projects_own_tasks(row, task):
    own = get_task("ctl-backward" if task == "ctl" else task, "paper")
    with torch.device("meta"):
        network = build(PRESETS[row](own))
    assert sum(parameter.numel() for parameter in network.parameters()) == COUNTS[row, task]


@pytest.mark.parametrize("row", [row for row in PRESETS if row not in EVERYWHERE])
def test_rows_that_the_paper_does_not_have_are_refused(row):
    with pytest.raises(Refusal, match=f'the paper has no row "{row}" for listops; it has one for ctl'):
        PRESETS[row](TASKS["listops"])


def test_an_unknown_task_is_refused():
    for row in PRESETS:
        with pytest.raises(Refusal, match="the paper has no row"):
            PRESETS[row](TASKS["ctl"]._replace(name="sorting"))


# width, inner width, heads, steps, dropout, key dropout, gate dropout, readout, embedding
SIZES = {
    ("transformer", "ctl"): (128, 256, 4, 11, 0.1, None, None, "last", "normal"),
    ("rel", "ctl"): (128, 256, 4, 11, 0.1, 0.0, None, "last", "kaiming"),
    ("geom", "ctl"): (128, 256, 4, 11, 0.1, 0.0, None, "last", "kaiming"),
    ("transformer-act-a", "ctl"): (128, 256, 4, 14, 0.1, None, None, "last", "normal"),
    ("rel-act-a", "ctl"): (128, 256, 4, 14, 0.1, 0.0, None, "last", "kaiming"),
    ("geom-act-u", "ctl"): (128, 256, 4, 14, 0.1, 0.0, None, "last", "kaiming"),
    ("rel-gate", "ctl"): (256, 1024, 1, 14, 0.5, 0.1, 0.0, "last", "normal"),
    ("absrel-gate", "ctl"): (256, 1024, 1, 14, 0.5, 0.1, 0.0, "last", "normal"),
    ("ndr", "ctl"): (256, 512, 1, 14, 0.5, 0.1, 0.1, "last", "normal"),
    ("transformer", "arithmetic"): (128, 256, 4, 11, 0.5, None, None, "first", "normal"),
    ("rel", "arithmetic"): (128, 256, 4, 11, 0.5, 0.1, None, "first", "kaiming"),
    ("absrel-gate", "arithmetic"): (256, 1024, 4, 15, 0.5, 0.1, 0.1, "last", "normal"),
    ("ndr", "arithmetic"): (256, 1024, 4, 15, 0.5, 0.1, 0.1, "last", "normal"),
    ("transformer", "listops"): (256, 1024, 16, 6, 0.015, None, None, "first", "normal"),
    ("rel", "listops"): (256, 1024, 16, 6, 0.015, 0.05, None, "first", "xavier"),
    ("absrel-gate", "listops"): (512, 2048, 16, 20, 0.1, 0.1, 0.05, "first", "normal"),
    ("ndr", "listops"): (512, 1024, 16, 20, 0.1, 0.1, 0.05, "first", "normal"),
}


@pytest.mark.parametrize(("row", "task"), SIZES)
def test_sizes_and_rates_are_those_of_the_papers_runs(row, task):
    settings = PRESETS[row](TASKS[task])
    attention, update = settings.attention, settings.update
    found = (settings.width, update.hidden, attention.heads, settings.steps, update.dropout)
    found += (getattr(attention, "dropout", None), getattr(update, "gate_dropout", None))
    assert (*found, settings.readout, settings.embedding) == SIZES[row, task]
    assert settings.test_steps == (24 if (row, task) == ("ndr", "listops") else None)
    assert getattr(attention, "normalise", None) == (row.startswith("geom") if "geom" in attention.kind else None)
    if "gate" in row:
        assert update.candidate == "tanh"


def test_ablations():
    ctl = TASKS["ctl"]
    for row in ("transformer", "rel", "rel-gate"):
        assert PRESETS[row](ctl, readout="first").readout == "first"
    assert PRESETS["ndr"](ctl, steps=8).steps == 8
    assert PRESETS["bilstm"](ctl).readout == "both-ends"


@pytest.mark.parametrize(("row", "task"), ROWS)
def test_one_optimiser_step(row, task):
    torch.manual_seed(0)
    network = build(PRESETS[row](TASKS[task]))
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
    tokens, lengths = batch(task, rows=2, columns=5)
    loss = cross_entropy(network(tokens, lengths), torch.tensor([1, 2]))
    loss.backward()
    optimiser.step()
    assert loss.isfinite()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.ne(before[name]).any(), name


@pytest.mark.parametrize("row", PRESETS)
def test_padding_changes_nothing(row):
    """A sequence alone, padded, or beside longer ones gives the same logits."""
    network = small(row, steps=11).eval()
    tokens, lengths = batch(rows=3, columns=11)
    together = network(tokens, lengths)
    for place, length in enumerate(lengths.tolist()):
        alone = tokens[place : place + 1, :length]
        padded = torch.cat([tokens[place : place + 1], torch.full((1, 13), 3)], 1)
        for logits in (
            network(alone),
            network(alone, lengths[place : place + 1]),
            network(padded, torch.tensor([length])),
        ):
            torch.testing.assert_close(logits[0], together[place], rtol=0, atol=1e-5)


@pytest.mark.parametrize("row", PRESETS)
def test_bfloat16_autocast(row):
    network, (tokens, lengths) = small(row).eval(), batch()
    plain = network(tokens, lengths)
    network.train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = cross_entropy(network(tokens, lengths).float(), torch.tensor([1, 2, 3]))
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())
    network.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        torch.testing.assert_close(network(tokens, lengths).float(), plain, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("row", PRESETS)
def test_compile(row):
    """In one graph, but for the LSTMs: torch does not capture packed sequences (docs/library.md)."""
    torch._dynamo.reset()
    network, (tokens, lengths) = small(row).eval(), batch(columns=2 if row == "dnc" else 7)
    compiled = torch.compile(network, backend="eager", fullgraph=row not in ("lstm", "bilstm"))
    torch.testing.assert_close(compiled(tokens, lengths), network(tokens, lengths), rtol=1e-5, atol=1e-5)


def test_compile_for_training():
    """The router through autograd's own capture: values and gradients."""
    torch._dynamo.reset()
    settings = PRESETS["ndr"](TASKS["ctl"])
    settings = settings.model_copy(
        update={"steps": 1, "update": settings.update.model_copy(update={"dropout": 0.0, "gate_dropout": 0.0})}
    )
    settings = settings.model_copy(update={"attention": settings.attention.model_copy(update={"dropout": 0.0})})
    torch.manual_seed(0)
    network, (tokens, lengths) = build(settings).train(), batch()
    wanted = torch.autograd.grad(network(tokens, lengths).square().sum(), list(network.parameters()))
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(compiled(tokens, lengths).square().sum(), list(network.parameters()))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("row", ["transformer-act-a", "rel-act-u", "geom-act-a", "rel-gate", "absrel-gate", "ndr"])
def test_export_with_any_batch_and_length(row):
    """The remaining rows are these with a part left out."""
    network = small(row).eval()
    rows, columns = torch.export.Dim("rows", min=2, max=64), torch.export.Dim("columns", min=2, max=128)
    shapes = {"tokens": {0: rows, 1: columns}, "lengths": {0: rows}}
    exported = torch.export.export(network, batch(), dynamic_shapes=shapes).module()
    for size in ((3, 7), (5, 17)):
        tokens, lengths = batch(rows=size[0], columns=size[1], seed=1)
        torch.testing.assert_close(exported(tokens, lengths), network(tokens, lengths), rtol=1e-5, atol=1e-5)


def test_export_of_the_dnc_at_one_length():
    """Its loop over tokens is unrolled (docs/library.md)."""
    network, (tokens, lengths) = small("dnc").eval(), batch(columns=2)
    exported = torch.export.export(network, (tokens, lengths)).module()
    torch.testing.assert_close(exported(tokens, lengths), network(tokens, lengths))


@pytest.mark.parametrize("row", ROUTERS)
@pytest.mark.parametrize("steps", [2, 61])
def test_any_number_of_steps(row, steps):
    network = small(row).eval()
    assert network(*batch(), steps=steps).isfinite().all()


def test_every_preset_is_a_kind_of_network():
    for row in ROUTERS:
        with torch.device("meta"):
            assert isinstance(build(PRESETS[row](TASKS["ctl"])), NeuralDataRouter)
