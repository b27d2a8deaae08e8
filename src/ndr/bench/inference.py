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
from ndr.train.open import Opened
from ndr.train.predict import predict_lines

SAMPLES = 2048


def solved_router(folder: str | None) -> Opened | None:
    """The router asked for, or a shipped one for table lookup; None when there is none."""
    shipped = sorted(path.name for path in SHIPPED.glob("*/")) if SHIPPED.is_dir() else []
    for name in [folder] if folder else shipped:
        opened = open_network(name)
        if isinstance(opened.network, NeuralDataRouter) and isinstance(opened.task, TableLookup):
            return opened
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
def measure_inference(opened: Opened, rounds: int, still: bool, steps: int = 14) -> Measure:
    network = opened.network.eval()
    assert isinstance(network, NeuralDataRouter)
    tokens, lengths = inputs(network)

    def answers(until_still: bool | None) -> tuple[Tensor, Tensor]:
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
    until = f"still ({STILL})" if still else "nothing changes at all"
    return Measure(
        f"inference: table lookup with 1-5 functions, until {until}",
        times["early"] / SAMPLES * 1e6,
        "µs a sample",
        {f"all {steps} steps": times["all"] / SAMPLES * 1e6},
        f"{SAMPLES} samples, width {network.settings.width}; {taken.float().mean():.1f} of {steps} steps on average; "
        f"{differing} answers differ",
    )


@torch.no_grad()
def measure_predict(opened: Opened, rounds: int, lines: int = 20_000) -> Measure:
    """`ndr predict < file` after start: reading, checking, batching by length and answering, line by line."""
    network, generator = opened.network.eval(), np.random.default_rng(0)
    texts = [opened.task.sample(generator, 1 + number % 5) for number in range(lines)]
    ids = [network.vocabulary.encode(network.vocabulary.tokenize(text)) for text in texts]
    by_length = [torch.tensor([each for each in ids if len(each) == length]) for length in sorted(set(map(len, ids)))]
    times = side_by_side(
        {
            "predict": lambda: list(predict_lines(opened, texts)),
            "network": lambda: [network(tokens) for tokens in by_length],
        },
        rounds,
    )
    return Measure(
        "ndr predict: table lookup with 1-5 functions from a file",
        times["predict"] / lines * 1e6,
        "µs a line",
        {"the network alone, in batches of one length": times["network"] / lines * 1e6},
        f"{lines / times['predict']:,.0f} lines a second",
    )
