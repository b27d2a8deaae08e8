import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ndr.models import Absolute, NeuralDataRouter, Residual
from ndr.models.trace import Trace

sys.path.insert(0, str(Path(__file__).parent))

from small_networks import Explorer, make_router


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
    from find_browser import LAUNCH, NoBrowser, find_or_install

    try:
        path = find_or_install()
    except NoBrowser as reason:
        message = f"no browser, so the explorer's page was not tested: {reason}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return {"executable_path": path, "args": list(LAUNCH)}
