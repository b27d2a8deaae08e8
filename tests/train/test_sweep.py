"""Intervals around shares."""

import pytest

from ndr.train.sweep import wilson


def test_wilsons_interval_by_hand():
    # 95 % of 19 of 20: centre (0.95 + z²/40) / (1 + z²/20), z² = 3.8415.
    low, high = wilson(19, 20)
    assert (low, high) == pytest.approx((0.7639, 0.9911), abs=5e-5)


@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
def test_the_share_lies_in_its_interval_whatever_the_count(right: float):
    for count in range(2, 3_000, 2):
        low, high = wilson(int(right * count), count)
        assert 0 <= low <= right <= high <= 1
