"""Outlines of networks: right in shape, empty, and quick."""

import subprocess
import sys

import pytest
import torch

from ndr.models.network import build
from ndr.models.outline import outline
from ndr.train import load_recipe

QUICK = """
import sys
from ndr.models import load
load("ndr-ctl-forward-small")
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize("model", ["ndr", "rel", "transformer", "geom-act-u", "bilstm", "dnc"])
def test_an_outline_has_the_shapes_of_the_network_and_no_numbers(model: str) -> None:
    settings = load_recipe(f"ctl-forward-{model}-small").model
    with outline():
        outlined = build(settings)
    shapes = {name: value.shape for name, value in build(settings).state_dict().items()}
    assert {name: value.shape for name, value in outlined.state_dict().items()} == shapes
    assert all(weight.is_meta for weight in outlined.parameters())


def test_afterwards_weights_are_drawn_again() -> None:
    with outline():
        pass
    assert torch.nn.Embedding(3, 4).weight.std() > 0


def test_opening_a_network_does_not_import_the_compiler() -> None:
    ended = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
