"""Look inside: figures of what a network did, an explorer in the browser, and routing as a number."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndr.view.plots import KINDS, plot
    from ndr.view.ponder import PonderTimes, plot_ponder_times, ponder_times
    from ndr.view.routing import RoutingReport, plot_routing, read_routing

HOMES = {
    "KINDS": "plots",
    "plot": "plots",
    "PonderTimes": "ponder",
    "plot_ponder_times": "ponder",
    "ponder_times": "ponder",
    "RoutingReport": "routing",
    "plot_routing": "routing",
    "read_routing": "routing",
}
__all__ = [
    "KINDS",
    "PonderTimes",
    "RoutingReport",
    "plot",
    "plot_ponder_times",
    "plot_routing",
    "ponder_times",
    "read_routing",
]


def __getattr__(name: str) -> Any:
    # Found when asked for, so that `ndr explore --help` does not wait for torch.
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ndr.view.{HOMES[name]}"), name)
