"""Eqs. 6-8 read literally, pair by pair, in float64: written from the paper and sharing nothing with the library."""

import torch
from torch import Tensor


def closer(i: int, j: int, columns: int) -> list[int]:
    """The set S_ij of Eq. 8."""
    others = [k for k in range(columns) if k not in (i, j)]
    if i < j:
        return [k for k in others if abs(i - k) < abs(i - j)]
    return [k for k in others if abs(i - k) <= abs(i - j)]


def brute_force(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    side: Tensor,
    padding: Tensor | None = None,
    targets: list[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, weights and left-over mass of some targets (of all, when none are named)."""
    columns = query.shape[2]
    real = torch.ones(query.shape[0], columns) if padding is None else 1 - padding.double()
    outputs, rows, left = [], [], []
    for i in range(columns) if targets is None else targets:
        match = {}
        for j in range(columns):
            if j != i:
                logit = (query[:, :, i] * key[:, :, j]).sum(-1) + side[:, :, i, 0 if j < i else 1]
                match[j] = torch.sigmoid(logit) * real[:, None, j]
        row = []
        for j in range(columns):
            if j == i:
                row.append(torch.zeros_like(query[:, :, i, 0]))
                continue
            share = match[j]
            for k in closer(i, j, columns):
                share = share * (1 - match[k])
            row.append(share)
        missed = torch.ones_like(query[:, :, i, 0])
        for probability in match.values():
            missed = missed * (1 - probability)
        outputs.append(sum(row[j][..., None] * value[:, :, j] for j in range(columns)))
        rows.append(torch.stack(row, -1))
        left.append(missed)
    return torch.stack(outputs, 2), torch.stack(rows, 2), torch.stack(left, 2)


def problem(columns: int, masked: bool, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, ...]:
    """Random query, key, value, side and mask; batch 2, head 3, width 5, value width 7."""
    generator = torch.Generator().manual_seed(1000 * seed + columns)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    query, key, value = draw(2, 3, columns, 5) * scale, draw(2, 3, columns, 5), draw(2, 3, columns, 7)
    padding = torch.rand(2, columns, generator=generator) < 0.3
    # The second row ends in padding, as batches do; the first has holes.
    padding[1] = torch.arange(columns) >= max(1, columns - 2)
    return query, key, value, draw(2, 3, columns, 2), padding if masked else None
