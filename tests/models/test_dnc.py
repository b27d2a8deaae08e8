import math

import pytest
import torch

from ndr.models import DNC, DNCSettings
from ndr.models.dnc import Control, Memory, allocation, link, sharpen, step

CELLS, READS, WORD = 5, 2, 3


def network(**options):
    torch.manual_seed(0)
    options = {"hidden": 7, "embedding": 5, "cells": 11, "reads": 3, "dropout": 0.0} | options
    return DNC(DNCSettings(tokens=tuple("abcdefg"), answers=("x", "y"), **options)).eval()


def draw():
    generator = torch.Generator().manual_seed(0)

    def rand(*shape):
        return torch.rand(1, *shape, generator=generator, dtype=torch.float64)

    memory = Memory(
        content=rand(CELLS, WORD) - 0.5,
        usage=rand(CELLS),
        write=rand(CELLS) / CELLS,
        precedence=rand(CELLS) / CELLS,
        links=rand(CELLS, CELLS) / CELLS * (1 - torch.eye(CELLS)),
        read=rand(READS, CELLS) / CELLS,
        words=rand(READS, WORD),
    )
    control = Control(
        write_key=rand(WORD) - 0.5,
        write_strength=1 + rand(1),
        write_value=rand(WORD),
        erase=rand(WORD),
        write_gate=rand(1),
        allocation_gate=rand(1),
        free=rand(READS),
        read_keys=rand(READS, WORD) - 0.5,
        read_strengths=1 + rand(READS),
        modes=rand(READS, 3).softmax(-1),
        sharpness=1 + rand(READS, 2),
    )
    return memory, control


def lookup(content, key, strength):
    def cosine(cell):
        norm = math.sqrt(sum(x * x for x in cell)) * math.sqrt(sum(x * x for x in key)) + 1e-6
        return sum(x * y for x, y in zip(cell, key, strict=True)) / norm

    shares = [math.exp(strength * cosine(cell)) for cell in content]
    return [share / sum(shares) for share in shares]


def powered(distribution, exponent):
    top = max(distribution) + 1e-6
    shares = [(x / top + 1e-6) ** exponent for x in distribution]
    return [share / sum(shares) for share in shares]


def test_one_step_by_plain_loops():
    """The memory of Graves et al. (2016) with de-allocation and sharp links, cell by cell."""
    memory, control = draw()
    m = Memory(*(part[0].tolist() for part in memory))
    c = Control(*(part[0].tolist() for part in control))
    cells, words = range(CELLS), range(WORD)
    kept = [math.prod(1 - c.free[r] * m.read[r][i] for r in range(READS)) for i in cells]
    usage = [(m.usage[i] + m.write[i] - m.usage[i] * m.write[i]) * kept[i] for i in cells]
    free = [0.0] * CELLS
    rest = 1.0
    for i in sorted(cells, key=lambda i: usage[i]):
        used = 1e-6 + (1 - 1e-6) * usage[i]
        free[i] = (1 - used) * rest
        rest *= used
    by_content = lookup(m.content, c.write_key, c.write_strength[0])
    share = c.allocation_gate[0]
    write = [c.write_gate[0] * (share * free[i] + (1 - share) * by_content[i]) for i in cells]
    content = [
        [m.content[i][w] * kept[i] * (1 - write[i] * c.erase[w]) + write[i] * c.write_value[w] for w in words]
        for i in cells
    ]
    links = [
        [0.0 if i == j else (1 - write[i] - write[j]) * m.links[i][j] + write[i] * m.precedence[j] for j in cells]
        for i in cells
    ]
    precedence = [(1 - sum(write)) * m.precedence[i] + write[i] for i in cells]
    read = []
    for r in range(READS):
        forward = powered([sum(links[i][j] * m.read[r][j] for j in cells) for i in cells], c.sharpness[r][0])
        backward = powered([sum(links[i][j] * m.read[r][i] for i in cells) for j in cells], c.sharpness[r][1])
        content_read = lookup(content, c.read_keys[r], c.read_strengths[r])
        modes = c.modes[r]
        read.append([modes[0] * backward[i] + modes[1] * content_read[i] + modes[2] * forward[i] for i in cells])
    read_words = [[sum(read[r][i] * content[i][w] for i in cells) for w in words] for r in range(READS)]

    expected = Memory(content, usage, write, precedence, links, read, read_words)
    for name, found, wanted in zip(Memory._fields, step(memory, control), expected, strict=True):
        torch.testing.assert_close(found[0], torch.tensor(wanted, dtype=torch.float64), msg=name)


def test_usage_takes_no_gradient_from_writing():
    memory, control = draw()
    memory.write.requires_grad_()
    assert not step(memory, control).usage.requires_grad


def test_allocation_prefers_free_cells_and_never_exceeds_one():
    usage = torch.tensor([[0.9, 0.0, 0.5, 1.0]])
    weights = allocation(usage)
    assert weights.argmax() == 1
    assert weights.sum() <= 1 + 1e-6
    blank = allocation(torch.zeros(3, 7))
    assert blank.argmax(-1).eq(0).all()
    assert blank[:, 1:].max() < 1e-5


def test_sharpening():
    even = sharpen(torch.zeros(1, 2, 5), torch.ones(1, 2))
    torch.testing.assert_close(even, torch.full((1, 2, 5), 0.2))
    peak = sharpen(torch.tensor([[[0.1, 0.3, 0.2]]]), torch.full((1, 1), 9.0))
    assert peak[0, 0].argmax() == 1
    assert peak[0, 0, 1] > 0.95


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_highest_power_of_the_smallest_shares(dtype):
    """No power of a blank or tiny distribution leaves nothing to rescale, in values and in gradients."""
    distribution = torch.tensor([[[0.0] * 5, [1e-9] * 5, [0.0, 1e-9, 1.0, 1e-9, 0.0]]], dtype=dtype).requires_grad_()
    exponent = torch.full((1, 3), 21.0, dtype=dtype).requires_grad_()
    found = sharpen(distribution, exponent)
    wanted = torch.tensor([[[0.2] * 5, [0.2] * 5, [0.0, 0.0, 1.0, 0.0, 0.0]]], dtype=dtype)
    torch.testing.assert_close(found, wanted)
    found[..., 1].sum().backward()
    assert distribution.grad.isfinite().all()
    assert exponent.grad.isfinite().all()


def test_links_are_never_negative():
    """Writes that sum to a little more than 1, as rounded ones do, leave nothing of a link rather than less."""
    memory, _ = draw()
    write = torch.tensor([[0.5 + 1e-7, 0.5 + 1e-7, 0.0, 0.0, 0.0]], dtype=torch.float64)
    blank = memory._replace(precedence=torch.zeros_like(memory.precedence))
    assert link(blank, write).ge(0).all()
    assert link(blank, write)[0, 0, 1] == 0


def test_controls_stay_in_their_ranges():
    dnc = network()
    with torch.no_grad():
        dnc.control.bias.copy_(torch.randn_like(dnc.control.bias) * 1e4)
    control = dnc.ask(torch.randn(2, 7))
    assert control.write_key.abs().max() <= 20
    for gate in (control.erase, control.write_gate, control.allocation_gate, control.free):
        assert gate.ge(0).all()
        assert gate.le(1).all()
    for strength in (control.write_strength, control.read_strengths, control.sharpness):
        assert strength.ge(1).all()
    torch.testing.assert_close(control.modes.sum(-1), torch.ones(2, 3))


def test_initial_values():
    dnc = network(hidden=40)
    assert dnc.controller.bias_ih.view(4, 40)[1].eq(1).all()
    assert dnc.controller.bias_ih.view(4, 40)[[0, 2, 3]].eq(0).all()
    assert dnc.controller.bias_hh.eq(0).all()
    for linear in (dnc.control, dnc.from_controller, dnc.from_words):
        assert linear.bias.eq(0).all()
        assert linear.weight.abs().max() <= math.sqrt(6 / sum(linear.weight.shape))
    gate, candidate = dnc.controller.weight_hh.chunk(4)[0], dnc.controller.weight_hh.chunk(4)[2]
    assert gate.abs().max() <= math.sqrt(6 / 80) < candidate.abs().max() <= 5 / 3 * math.sqrt(6 / 80)


def test_long_and_empty_inputs():
    dnc = network()
    assert dnc(torch.randint(7, (2, 101))).isfinite().all()
    alone = dnc(torch.zeros(1, 0, dtype=torch.long))
    beside = dnc(torch.tensor([[3, 3], [1, 2]]), torch.tensor([0, 2]))
    torch.testing.assert_close(beside[0], alone[0])
    with pytest.raises(ValueError, match="steps cannot be chosen"):
        dnc(torch.tensor([[1]]), steps=2)


def test_gradients_are_finite_through_a_blank_memory():
    dnc = network().train()
    dnc(torch.randint(7, (2, 5))).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in dnc.parameters())
