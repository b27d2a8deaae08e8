import sys
from pathlib import Path

# Oracles are shared by the tests of several rooms.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items):
    """Slow tests first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
