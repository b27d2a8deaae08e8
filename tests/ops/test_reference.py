import pytest
import torch

from ndr.ops.reference import accumulator, distance_order, geometric_weights, match_logits
from oracle import brute_force, closer, problem

# Figure 1, right, by hand from Eq. 8: in which order target (row) asks source (column), N = 5.
GRID = [
    [0, 1, 2, 3, 4],
    [2, 0, 1, 3, 4],
    [4, 2, 0, 1, 3],
    [4, 3, 2, 0, 1],
    [4, 3, 2, 1, 0],
]


def test_order_is_that_of_the_papers_figure():
    order = distance_order(5)
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(5).expand(5, 5))
    assert rank.tolist() == GRID


def test_the_oracles_sets_give_the_same_figure():
    ranks = [[0 if i == j else 1 + len(closer(i, j, 5)) for j in range(5)] for i in range(5)]
    assert ranks == GRID


def test_even_chances_halve_at_every_source():
    """All P = 1/2: the weight of a source is 2^−rank, so the weights spell the figure."""
    logits = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    logits.diagonal(dim1=-2, dim2=-1).fill_(-torch.inf)
    weights, left_over = geometric_weights(logits)
    expected = torch.tensor(GRID, dtype=torch.float64).mul(-1).exp2()
    expected.fill_diagonal_(0)
    torch.testing.assert_close(weights[0, 0], expected)
    torch.testing.assert_close(left_over, torch.full((1, 1, 5), 2.0**-4, dtype=torch.float64))


def test_three_columns_by_hand():
    """Target 1 of 3: the right source is asked first, the left one gets what it left."""
    right, left = 0.75, 0.5
    logit = torch.logit(torch.tensor([left, 0.1, right], dtype=torch.float64))
    logits = torch.full((1, 1, 3, 3), -torch.inf, dtype=torch.float64)
    logits[0, 0, 1, [0, 2]] = logit[[0, 2]]
    weights, left_over = geometric_weights(logits)
    torch.testing.assert_close(weights[0, 0, 1], torch.tensor([0.25 * 0.5, 0.0, 0.75], dtype=torch.float64))
    torch.testing.assert_close(left_over[0, 0], torch.tensor([1.0, 0.25 * 0.5, 1.0], dtype=torch.float64))


def test_a_stretched_match_is_exact():
    """P of 0.95 becomes 1 and P of 0.05 becomes 0, so the first certain source takes everything."""
    logits = torch.full((1, 1, 4, 4), -torch.inf, dtype=torch.float64)
    logits[0, 0, 0, 1:] = torch.logit(torch.tensor([0.05, 0.95, 0.5], dtype=torch.float64))
    weights, left_over = geometric_weights(logits, stretch=0.1)
    assert weights[0, 0, 0].tolist() == [0, 0, 1, 0]
    assert left_over[0, 0].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 12])
def test_weights_and_left_over_equal_the_oracle(columns, masked):
    query, key, value, side, padding = problem(columns, masked)
    weights, left_over = geometric_weights(match_logits(query, key, side, padding))
    _, expected_weights, expected_left_over = brute_force(query, key, value, side, padding)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(left_over, expected_left_over, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(weights.sum(-1) + left_over, torch.ones_like(left_over), rtol=1e-12, atol=0)


def test_a_long_row_of_confident_misses_does_not_cancel():
    """Hundreds of closer non-matches and near-certain matches far off: float32 must still tell the shares."""
    logits = torch.full((1, 1, 1, 701), -9.0, dtype=torch.float64).expand(1, 1, 701, 701).clone()
    logits[..., 1] = 4.0
    logits[..., 2::50] = 16.0
    logits.diagonal(dim1=-2, dim2=-1).fill_(-torch.inf)
    exact, _ = geometric_weights(logits)
    single, _ = geometric_weights(logits.float())
    torch.testing.assert_close(single.double(), exact, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_logs_are_taken_in_float32_or_better(dtype, expected):
    query, key, _, side, _ = (None if x is None else x.to(dtype) for x in problem(3, masked=False))
    assert accumulator(dtype) == expected
    assert match_logits(query, key, side, None).dtype == expected
