"""The explorer under a little load; `make load` presses it with 64 clients for a minute."""

from pathlib import Path

from load.explorer import press
from load.network import save_small_network


def test_valid_requests_are_answered_whatever_others_do(tmp_path: Path):
    save_small_network(tmp_path / "network")
    report = press(tmp_path / "network", clients=16, seconds=5)
    assert not report.problems, report.text()
    assert len(report.notes.latencies) > 20 and report.exit_code == 0
    assert max(report.memory) < report.memory[0] + 200 * 2**20
