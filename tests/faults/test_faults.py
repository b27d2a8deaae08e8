"""A small campaign of faults; `make faults` runs the long one, whose tally is in docs/reliability.md."""

import subprocess
import sys
from pathlib import Path

import pytest

from faults.campaign import Verdict, table

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_nothing_is_lost_by_twenty_faults():
    # In a process of its own: the campaign forks, and a test run may hold threads.
    words = [sys.executable, "-m", "tests.faults", "--count", "20", "--seed", "1", "--no-grids"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "| **all** | **20** | **20** | **0** |" in ended.stdout


def test_what_did_not_take_hold_is_not_counted():
    late, harmless = (Verdict(0, "training", "kill -9", None, "", took_hold) for took_hold in (False, True))
    # What is lost without a fault is lost all the same.
    lost = Verdict(0, "training", "kill -9", "half-written: a.json", "", took_hold=False)
    assert [each.counts for each in (late, harmless, lost)] == [False, True, True]
    assert "| kill -9 | 2 | 1 | 1 |" in table([harmless, lost])
