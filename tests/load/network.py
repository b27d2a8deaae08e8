"""A network small enough to be asked thousands of times."""

from pathlib import Path

import torch

from ndr.models import CopyGated, Geometric, NeuralDataRouter, RouterSettings
from ndr.tasks import get_task


def save_small_network(folder: Path) -> None:
    task = get_task("ctl-forward")
    torch.manual_seed(7)
    words = {"task": task.name, "tokens": task.tokens, "answers": task.answers}
    parts = {"width": 32, "steps": 8, "attention": Geometric(heads=4), "update": CopyGated(hidden=32)}
    NeuralDataRouter(RouterSettings(**words, **parts)).save_pretrained(folder)
