"""The routers inside the package: they answer, and it is the copy gate that lets them."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from ndr.data import open_split
from ndr.models import NeuralDataRouter
from ndr.models.network import SHIPPED
from ndr.nn import fused
from ndr.train import open_network, sweep_split
from ndr.train.open import Opened
from ndr.train.sweep import DepthScore, sweep_depths

LOOKUP = ["ndr-ctl-forward-small", "ndr-ctl-backward-small"]


def on_test(opened: Opened, count: int) -> list[DepthScore]:
    """The accuracy at each depth of the test split."""
    scores = sweep_split(opened, open_split(opened.task, "test", count=count))
    assert {score.depth for score in scores} == ({9, 10} if opened.task.name.startswith("ctl") else {7, 8})
    return scores


def test_each_can_be_opened_by_name() -> None:
    names = sorted(path.name for path in SHIPPED.glob("*/"))
    assert set(LOOKUP) <= set(names)
    for name in names:
        assert isinstance(NeuralDataRouter.from_pretrained(name), NeuralDataRouter)


@pytest.mark.parametrize("name", LOOKUP)
def test_longer_inputs_than_in_training(name: str) -> None:
    opened = open_network(name)
    assert all(score.accuracy >= 0.99 for score in on_test(opened, 400))
    (far,) = sweep_depths(opened, [50], count=50)
    assert far.accuracy >= 0.96


def test_deeper_arithmetic_than_in_training() -> None:
    opened = open_network("ndr-arithmetic-small")
    assert all(score.accuracy >= 0.99 for score in on_test(opened, 400))
    (far,) = sweep_depths(opened, [16], count=60)
    assert far.accuracy >= 0.9


def test_deeper_lists_than_in_training() -> None:
    opened = open_network("ndr-listops-small")
    assert all(score.accuracy >= 0.98 for score in on_test(opened, 400))
    (far,) = sweep_depths(opened, [12], "auto", count=100)
    assert far.accuracy >= 0.96
    assert opened.network.answer(["[SM 4 [MAX 2 9 ] [MIN 4 7 ] ]"]) == ["7"]


def test_crisp_lists_go_deeper() -> None:
    opened = open_network("ndr-listops-crisp-small")
    assert all(score.accuracy >= 0.98 for score in on_test(opened, 400))
    (far,) = sweep_depths(opened, [20], "auto", count=60)
    assert far.accuracy >= 0.95


@pytest.mark.parametrize("name", LOOKUP)
def test_without_its_gate_it_forgets(name: str) -> None:
    class Open(nn.Module):
        def forward(self, logits: torch.Tensor) -> torch.Tensor:
            return torch.ones_like(logits)

    opened = open_network(name)
    assert isinstance(opened.network, NeuralDataRouter)
    opened.network.encoder.layer.update.squash = Open()
    assert all(score.accuracy < 0.5 for score in on_test(opened, 200))


@pytest.mark.parametrize("name", LOOKUP)
def test_leaving_out_steps_changes_no_answer(name: str) -> None:
    """Early exit against every one of 14 steps, on problems of the sizes seen in training."""
    opened = open_network(name)
    network, split = opened.network.eval(), open_split(opened.task, "iid", count=1_000)
    assert isinstance(network, NeuralDataRouter)
    layer = network.encoder.layer
    saved = 0
    for length in sorted(set(split.lengths.tolist())):
        tokens = split.batch((split.lengths == length).nonzero()[0]).tokens
        with torch.no_grad():
            start = network.embed(network.frame(tokens, None)[0])
            every = network.score(network.read(fused.run_steps(layer, start, None, 14).states, None))
            early = network.encoder(start, steps=14, until_still=True)
        assert every.argmax(-1).equal(network.score(network.read(early.states, None)).argmax(-1))
        saved += int((14 - early.steps).sum())
    assert saved > 14 * len(split) / 3


def test_predict_by_name_answers_line_by_line() -> None:
    words = [sys.executable, "-m", "ndr", "predict", "ndr-ctl-forward-small"]
    done = subprocess.run(words, input="101 a b\nnonsense\n000 c\n", capture_output=True, text=True)
    task = open_network("ndr-ctl-forward-small").task
    assert done.stdout.splitlines() == [task.evaluate("101 a b"), "?", task.evaluate("000 c")]
    assert done.returncode == 1 and done.stderr.count("\n") == 1
