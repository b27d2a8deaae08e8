"""The shapes in the library's signatures are true: every network runs with each of them checked."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from jaxtyping import TypeCheckError, install_import_hook

modules = ["ndr.ops.reference", "ndr.ops.attention"]
modules += ["ndr.nn." + name for name in ("absolute geometric halting heads layer position relative update").split()]
modules += ["ndr.models." + name for name in "encoder router token_by_token recurrent dnc trace".split()]
install_import_hook(modules, "beartype.beartype")

import torch
from stand_ins import TASKS
from ndr.models.network import build
from ndr.models.presets import PRESETS

tokens, lengths = torch.randint(19, (3, 7)), torch.tensor([7, 2, 5])
for name, preset in PRESETS.items():
    network = build(preset(TASKS["ctl"]))
    network(tokens, lengths).sum().backward()
    network(tokens)
    if hasattr(network, "trace"):
        network.trace("101 a b", steps=2)
        network.encoder.layer(torch.randn(2, 5, network.settings.width), torch.zeros(2, 5, dtype=torch.bool), True)

# And they are looked at.
try:
    network.encoder.layer.attention(torch.zeros(2, 5, 3, 256))
except TypeCheckError:
    print("checked")
"""


def test_every_network_with_its_shapes_checked():
    here = str(Path(__file__).parent)
    program = f"import sys; sys.path.insert(0, {here!r})\n{PROGRAM}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250)
    assert run.stderr == "" or run.returncode == 0, run.stderr
    assert run.stdout == "checked\n", run.stderr
