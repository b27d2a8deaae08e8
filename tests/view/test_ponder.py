import pytest

from ndr.errors import Refusal
from ndr.view import plot_ponder_times, ponder_times

TEXTS = ["101 d", "011 a", "101 d a b", "111"]


def test_ponder_times_are_the_most_updates_of_a_column(halting):
    times = ponder_times(halting, TEXTS)
    assert list(times.steps) == [3, 4, 6] and times.samples == {3: 1, 4: 2, 6: 1}
    # Independently: a trace ends when the last column has halted.
    assert times.steps[6] == halting.trace("101 d a b").steps
    both = [halting.trace(text).steps for text in TEXTS[:2]]
    assert times.steps[4] == pytest.approx(sum(both) / 2)


def test_figure_has_a_bar_for_each_length_and_the_limit(halting, tmp_path):
    figure = plot_ponder_times(ponder_times(halting, TEXTS), tmp_path / "ponder.pdf")
    axes = figure.axes[0]
    assert len(axes.patches) == 3 and axes.lines[0].get_ydata()[0] == 5
    assert (tmp_path / "ponder.pdf").read_bytes().startswith(b"%PDF")


def test_only_halting_networks_ponder(router, halting):
    with pytest.raises(Refusal, match="adaptive computation time"):
        ponder_times(router, TEXTS)
    with pytest.raises(Refusal, match="at least one sample"):
        ponder_times(halting, [])
