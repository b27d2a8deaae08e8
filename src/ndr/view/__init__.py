"""Look inside: figures of what a network did, an explorer in the browser, and routing as a number."""

from ndr.view.plots import KINDS, plot
from ndr.view.ponder import PonderTimes, plot_ponder_times, ponder_times
from ndr.view.routing import RoutingReport, plot_routing, read_routing

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
