"""Answers to lines of text."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TextIO

import numpy as np
import torch

from ndr.errors import Refusal
from ndr.models.network import evaluating
from ndr.tasks.malformed import MAX_CHARACTERS
from ndr.train.evaluate import batches_of_one_length
from ndr.train.open import Opened
from ndr.train.sweep import Steps, answer_in

LINES = 4_096


def lines_of(stream: TextIO) -> Iterator[str]:
    """The lines of the input, each cut to what no task accepts: an endless line does not fill the memory."""
    while line := stream.readline(MAX_CHARACTERS + 2):
        text = line.rstrip("\r\n")
        while line and not line.endswith("\n"):
            line = stream.readline(MAX_CHARACTERS)
        yield text


def predict_lines(
    opened: Opened, lines: Iterable[str], *, steps: Steps = None, at_once: int = LINES
) -> Iterator[str | Refusal]:
    """An answer for every line, in order; for a malformed one, what is wrong with it."""
    waiting = iter(lines)
    while chunk := list(islice(waiting, at_once)):
        yield from predict_chunk(opened, chunk, steps)


def predict_chunk(opened: Opened, lines: list[str], steps: Steps) -> list[str | Refusal]:
    found: list[str | Refusal] = ["?"] * len(lines)
    encoded: dict[int, list[int]] = {}
    for place, line in enumerate(lines):
        try:
            # Evaluating is the check: it refuses what the task does not know how to answer.
            opened.task.evaluate(line)
            encoded[place] = opened.network.vocabulary.encode(opened.task.tokenize(line))
        except Refusal as refusal:
            found[place] = refusal
    places = np.array(list(encoded))
    lengths = np.array([len(ids) for ids in encoded.values()])
    network = opened.network
    with torch.no_grad(), evaluating(network):
        for batch in batches_of_one_length(lengths) if len(places) else ():
            tokens = torch.tensor([encoded[int(place)] for place in places[batch]], device=network.device)
            # Only steps that follow the problem need to know how deep it is.
            depth = max(opened.task.depth(lines[place]) for place in places[batch]) if steps == "auto" else 0
            logits, _ = answer_in(network, tokens, steps, depth)
            for place, answer in zip(places[batch], logits.argmax(-1).tolist(), strict=True):
                found[int(place)] = network.settings.answers[answer]
    return found
