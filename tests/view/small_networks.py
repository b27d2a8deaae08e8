"""Networks small enough for tests, and an explorer of them as a user starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from ndr.models import CopyGated, Geometric, NeuralDataRouter, RouterSettings
from ndr.tasks import get_task

LISTOPS = "[SM [MED [MIN 1 7 4 [MAX 2 4 0 8 9 ] ] 7 ] 5 [MED 8 5 8 ] 0 7 ]"


def make_router(task_name: str, **parts: Any) -> NeuralDataRouter:
    """A small network with random weights whose gates open now and then."""
    task = get_task(task_name)
    torch.manual_seed(7)
    settings = {"width": 21, "steps": 5, "attention": Geometric(heads=3), "update": CopyGated(hidden=11, bias=-1.0)}
    words = {"task": task_name, "tokens": task.tokens, "answers": task.answers}
    return NeuralDataRouter(RouterSettings(**{**words, **settings, **parts})).eval()


class Explorer:
    """`ndr explore` as a user starts it, in a process of its own."""

    def __init__(self, *runs: Path) -> None:
        command = [sys.executable, "-m", "ndr", "explore", *map(str, runs), "--port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found, line + self.process.stdout.read()
        self.address = found[0]

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=20)
