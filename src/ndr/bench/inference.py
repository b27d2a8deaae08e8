"""A solved router on short inputs: all steps against leaving off when nothing changes any more."""

import numpy as np
import torch
from torch import Tensor

from ndr.bench.measure import Measure, side_by_side
from ndr.errors import Refusal
from ndr.models.encoder import STILL
from ndr.models.network import SHIPPED
from ndr.models.router import NeuralDataRouter
from ndr.nn import fused
from ndr.tasks import TableLookup, get_task
from ndr.train import open_network

SAMPLES = 2048


def solved_router(folder: str | None) -> NeuralDataRouter | None:
    """The router asked for, or a shipped one for table lookup; None when there is none."""
    shipped = sorted(path.name for path in SHIPPED.glob("*/")) if SHIPPED.is_dir() else []
    for name in [folder] if folder else shipped:
        opened = open_network(name)
        if isinstance(opened.network, NeuralDataRouter) and isinstance(opened.task, TableLookup):
            return opened.network
    if folder:
        raise Refusal(f"{folder} holds no router for table lookup")
    return None


def inputs(network: NeuralDataRouter, functions: int = 5) -> tuple[Tensor, Tensor]:
    """Texts with 1 to `functions` functions, side by side, and their lengths."""
    task, generator = get_task(str(network.settings.task)), np.random.default_rng(0)
    texts = [task.sample(generator, 1 + number % functions) for number in range(SAMPLES)]
    ids = [torch.tensor(network.vocabulary.encode(network.vocabulary.tokenize(text))) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True), torch.tensor([len(each) for each in ids])


@torch.no_grad()
def measure_inference(network: NeuralDataRouter, rounds: int, still: bool | float, steps: int = 14) -> Measure:
    network.eval()
    tokens, lengths = inputs(network)

    def answers(until_still: bool | float | None) -> tuple[Tensor, Tensor]:
        columns, padding = network.frame(tokens, lengths)
        states = network.embed(columns)
        if until_still is None and fused.usable(network.encoder.layer, states, padding):
            # The encoder itself leaves out steps that change nothing at all.
            states, taken, _ = fused.run_steps(network.encoder.layer, states, padding, steps)
        else:
            encoded = network.encoder(states, padding, steps=steps, until_still=until_still or False)
            states, taken = encoded.states, encoded.steps
        return network.score(network.read(states, lengths)).argmax(-1), taken

    (every, _), (early, taken) = answers(None), answers(still)
    differing = int((every != early).sum())
    times = side_by_side({"early": lambda: answers(still), "all": lambda: answers(None)}, rounds)
    return Measure(
        f"inference: table lookup with 1-5 functions, until still ({STILL if still is True else still})",
        times["early"] / SAMPLES * 1e6,
        "µs a sample",
        {f"all {steps} steps": times["all"] / SAMPLES * 1e6},
        f"{SAMPLES} samples, width {network.settings.width}; {taken.float().mean():.1f} of {steps} steps on average; "
        f"{differing} answers differ",
    )
