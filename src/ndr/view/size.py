"""How large a trace may become, asked before it is made: a network from a stranger names its own number of steps."""

from ndr.errors import Refusal
from ndr.models import NeuralDataRouter

# A gigabyte each.
MOST_WEIGHTS = MOST_NUMBERS = 250_000_000


def check_trace(
    network: NeuralDataRouter, columns: int, steps: int, weights: int = MOST_WEIGHTS, numbers: int = MOST_NUMBERS
) -> None:
    """Refuse a trace with more attention weights, or more numbers in its states, than these."""
    heads, width = network.settings.attention.heads, network.settings.width
    if steps * heads * columns**2 > weights or steps * columns * width > numbers:
        raise Refusal(
            f"too much to show: {columns} columns × {steps} steps × {heads} heads; shorten the text or take fewer steps"
        )
