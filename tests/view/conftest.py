import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ndr.models import Absolute, CopyGated, Geometric, NeuralDataRouter, Residual, RouterSettings
from ndr.models.trace import Trace
from ndr.tasks import get_task

sys.path.insert(0, str(Path(__file__).parent))

LISTOPS = "[SM [MED [MIN 1 7 4 [MAX 2 4 0 8 9 ] ] 7 ] 5 [MED 8 5 8 ] 0 7 ]"


def make_router(task_name: str, **parts: Any) -> NeuralDataRouter:
    """A small network with random weights whose gates open now and then."""
    task = get_task(task_name)
    torch.manual_seed(7)
    settings = {"width": 21, "steps": 5, "attention": Geometric(heads=3), "update": CopyGated(hidden=11, bias=-1.0)}
    words = {"task": task_name, "tokens": task.tokens, "answers": task.answers}
    return NeuralDataRouter(RouterSettings(**{**words, **settings, **parts})).eval()


@pytest.fixture(scope="session")
def router() -> NeuralDataRouter:
    return make_router("ctl-forward")


@pytest.fixture(scope="session")
def listops_router() -> NeuralDataRouter:
    return make_router("listops", readout="first")


@pytest.fixture(scope="session")
def transformer() -> NeuralDataRouter:
    return make_router("ctl-forward", steps=3, attention=Absolute(heads=7), update=Residual(hidden=11))


@pytest.fixture(scope="session")
def halting() -> NeuralDataRouter:
    return make_router("ctl-forward", attention=Absolute(heads=3), update=Residual(hidden=11), halting="A")


@pytest.fixture(scope="session")
def trace(router: NeuralDataRouter) -> Trace:
    return router.trace("101 d a b")


@pytest.fixture(scope="session")
def folders(
    tmp_path_factory: pytest.TempPathFactory,
    router: NeuralDataRouter,
    listops_router: NeuralDataRouter,
    transformer: NeuralDataRouter,
    halting: NeuralDataRouter,
) -> dict[str, Path]:
    """Every small network in a folder of its own."""
    root = tmp_path_factory.mktemp("networks")
    networks = {"router": router, "listops": listops_router, "transformer": transformer, "halting": halting}
    for name, network in networks.items():
        network.save_pretrained(root / name)
    return {name: root / name for name in networks}


class Explorer:
    """`ndr explore` as a user starts it, in a process of its own."""

    def __init__(self, *runs: Path) -> None:
        self.began = time.monotonic()
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


@pytest.fixture(scope="session")
def explorer(folders: dict[str, Path]) -> Iterator[Explorer]:
    running = Explorer(folders["router"], folders["transformer"], folders["listops"])
    yield running
    running.stop()


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where the browser tests leave their pictures for a person to look at."""
    place = Path(os.environ.get("NDR_TEST_OUTPUT", "build/test-output")) / "view"
    place.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Which browser pytest-playwright starts. Without any, its tests are skipped; in CI that is a failure."""
    from browser import LAUNCH, NoBrowser, find_or_install

    try:
        path = find_or_install()
    except NoBrowser as reason:
        message = f"no browser, so the explorer's page was not tested: {reason}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return {"executable_path": path, "args": list(LAUNCH)}
