import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "supply"))


@pytest.fixture(scope="session")
def root():
    return ROOT
