import sys
from pathlib import Path

# The evaluators written for these tests.
sys.path.insert(0, str(Path(__file__).parent))
