"""One training step (forward and backward) beside plain torch, torch's Transformer layer and the machine's limit."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ndr.bench.measure import Measure, side_by_side
from ndr.models.router import NeuralDataRouter
from ndr.models.settings import CopyGated, Geometric, RouterSettings


@dataclass(frozen=True)
class Size:
    """A router and a batch; columns include B and E."""

    name: str
    batch: int
    columns: int
    width: int
    hidden: int
    heads: int
    steps: int
    key_dropout: float = 0.1
    dropout: float = 0.5
    gate_dropout: float = 0.1

    @property
    def rows(self) -> int:
        return self.batch * self.columns


SMALL = Size("table lookup, small", 128, 8, 64, 128, 1, 8, 0.0, 0.0, 0.0)
PAPER = Size("table lookup, paper size", 512, 8, 256, 512, 1, 14)
SIZES = (
    SMALL,
    PAPER,
    Size("arithmetic, paper size", 64, 36, 256, 1024, 4, 15),
    Size("ListOps, paper size", 16, 40, 512, 1024, 16, 20, 0.1, 0.1, 0.1),
)


def router(size: Size) -> NeuralDataRouter:
    torch.manual_seed(0)
    settings = RouterSettings(
        tokens=tuple("0123456789"),
        answers=tuple("0123456789"),
        width=size.width,
        steps=size.steps,
        attention=Geometric(heads=size.heads, dropout=size.key_dropout),
        update=CopyGated(hidden=size.hidden, dropout=size.dropout, gate_dropout=size.gate_dropout),
    )
    return NeuralDataRouter(settings).train()


def training_step(size: Size) -> Callable[[], None]:
    network = router(size)
    tokens = torch.randint(10, (size.batch, size.columns - 2))
    answers = torch.randint(10, (size.batch,))

    def step() -> None:
        network.zero_grad(set_to_none=True)
        cross_entropy(network(tokens), answers).backward()  # type: ignore[no-untyped-call]

    return step


@contextmanager
def plain_torch() -> Iterator[None]:
    before = os.environ.get("NDR_PLAIN")
    os.environ["NDR_PLAIN"] = "1"
    try:
        yield
    finally:
        os.environ.pop("NDR_PLAIN")
        if before is not None:
            os.environ["NDR_PLAIN"] = before


def plainly(call: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with plain_torch():
            call()

    return run


def transformer_step(size: Size) -> Callable[[], None]:
    """Torch's own layer of the same width, inner width, heads and dropout, applied as often."""
    layer = nn.TransformerEncoderLayer(size.width, size.heads, size.hidden, size.dropout, batch_first=True).train()
    states = torch.randn(size.batch, size.columns, size.width)

    def step() -> None:
        layer.zero_grad(set_to_none=True)
        out = states
        for _ in range(size.steps):
            out = layer(out)
        out[:, -1].square().mean().backward()  # type: ignore[no-untyped-call]

    return step


def flop(size: Size) -> int:
    """Of all products of a training step: the five of a layer and attention's two, forward and twice backward."""
    width, hidden = size.width, size.hidden
    weights = (
        width * (3 * width + 2 * size.heads) + width * width + width * (hidden + width) + hidden * width + width**2
    )
    attention = 2 * size.columns * width
    return 3 * 2 * size.rows * (weights + attention) * size.steps


def products(size: Size) -> tuple[Callable[[], None], int]:
    """The layer's five products at their own shapes over the whole batch, forward and backward, by torch.mm alone."""
    shapes = [
        (size.width, 3 * size.width),
        (size.width, size.width),
        (size.width, size.hidden + size.width),
        (size.hidden, size.width),
        (size.width, size.width),
    ]
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for wide, narrow in shapes:
        states, grads = torch.randn(size.rows, wide), torch.randn(size.rows, narrow)
        weight = torch.randn(narrow, wide)
        parts.append((states, weight.t(), torch.empty(size.rows, narrow)))
        parts.append((grads, weight, torch.empty(size.rows, wide)))
        parts.append((grads.t(), states, torch.empty(narrow, wide)))

    def run() -> None:
        for left, right, out in parts:
            torch.mm(left, right, out=out)

    return run, sum(2 * left.shape[0] * left.shape[1] * right.shape[1] for left, right, _ in parts)


def measure_training(size: Size, rounds: int) -> Measure:
    step = training_step(size)
    multiply, multiplied = products(size)
    times = side_by_side(
        {
            "router": step,
            "plain torch": plainly(step),
            "TransformerEncoderLayer": transformer_step(size),
            "products": multiply,
        },
        rounds,
        seconds=0.1,
    )
    rate = multiplied / times["products"]
    return Measure(
        f"training step: {size.name}",
        times["router"] * 1e3,
        "ms",
        {
            "limit": flop(size) / rate * 1e3,
            "plain torch": times["plain torch"] * 1e3,
            "TransformerEncoderLayer": times["TransformerEncoderLayer"] * 1e3,
        },
        f"{size.batch} × {size.columns} columns, width {size.width}, {size.steps} steps; "
        f"products at {rate / 1e9:.0f} GFLOP/s with {torch.get_num_threads()} threads",
    )
