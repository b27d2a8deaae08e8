import torch
from torch import nn

from ndr.train.soap import Soap


def test_vectors_and_scalars_take_the_step_of_adamw():
    for shape in [(7,), (), (2, 3, 5)]:
        start, grads = torch.randn(shape), [torch.randn(shape) for _ in range(23)]
        ends = []
        # The first gradient moves nothing.
        for kind, seen in ((Soap, [torch.ones(shape), *grads]), (torch.optim.AdamW, grads)):
            weight = nn.Parameter(start.clone())
            optimiser = kind([weight], lr=0.03, betas=(0.9, 0.95), weight_decay=0.1)
            for grad in seen:
                weight.grad = grad.clone()
                optimiser.step()
            ends.append(weight.detach())
        torch.testing.assert_close(*ends, rtol=1e-5, atol=1e-6)


def test_it_does_not_matter_how_a_matrix_is_turned():
    torch.manual_seed(0)
    rows, columns = (torch.linalg.qr(torch.randn(7, 7, dtype=torch.float64))[0] for _ in range(2))
    start, *grads = torch.randn(32, 7, 7, dtype=torch.float64)
    plain, turned = nn.Parameter(start.clone()), nn.Parameter(rows @ start @ columns)
    straight, askew = (Soap([weight], lr=0.01, eps=0.0) for weight in (plain, turned))
    for grad in grads:
        plain.grad, turned.grad = grad, rows @ grad @ columns
        straight.step()
        askew.step()
    assert (plain - start).norm() > 0.1
    torch.testing.assert_close(rows @ plain @ columns, turned, rtol=1e-6, atol=1e-8)


def test_a_turned_valley_is_no_harder_than_a_straight_one():
    torch.manual_seed(1)
    aim, turn = torch.randn(6, 6), torch.linalg.qr(torch.randn(6, 6))[0]
    left = {}
    for kind in (Soap, torch.optim.AdamW):
        weight = nn.Parameter(torch.zeros(6, 6))
        optimiser = kind([weight], lr=0.03, betas=(0.9, 0.99), weight_decay=0.0)
        for _ in range(150):
            optimiser.zero_grad()
            (((weight - aim) @ turn) * torch.logspace(0, 2, 6)).square().sum().backward()
            optimiser.step()
        left[kind] = float((weight.detach() - aim).norm())
    assert left[Soap] < 0.5 * left[torch.optim.AdamW]
