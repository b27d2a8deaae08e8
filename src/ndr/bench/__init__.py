"""Speed, each figure beside its yardsticks, all measured in one run: `ndr bench`."""

from ndr.bench.measure import Measure

__all__ = ["Measure"]
