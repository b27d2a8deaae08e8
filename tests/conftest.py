import sys
from pathlib import Path

# Oracles are shared by the tests of several rooms.
sys.path.insert(0, str(Path(__file__).parent))
