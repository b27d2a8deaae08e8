"""What is drawn: the clean variant is even where it should be, the paper variant as skewed as the paper's."""

import numpy as np
import pytest

from ndr.tasks import Arithmetic, ListOps, TableLookup
from ndr.tasks.listops import branch, paper_plan
from ndr.tasks.stream import Stream
from ndr.tasks.task import SplitSpec, scaled


def samples(task, spec: SplitSpec, key: int = 1):
    columns = task.fill(spec, key)
    return np.split(columns.tokens, np.cumsum(columns.lengths, dtype=np.int64)[:-1]), columns


def chi_square(counts: np.ndarray, expected: np.ndarray | None = None) -> float:
    """How many standard deviations the statistic is above its mean (a good normal approximation at these counts)."""
    wanted = np.full(len(counts), counts.sum() / len(counts)) if expected is None else expected * counts.sum()
    statistic = float(((counts - wanted) ** 2 / wanted).sum())
    freedom = len(counts) - 1
    return (statistic - freedom) / np.sqrt(2 * freedom)


def test_lookup_is_uniform() -> None:
    _, columns = samples(TableLookup(), TableLookup().describe("depth-9", 5_000))
    assert chi_square(np.bincount(columns.tokens[columns.tokens >= 8])[8:]) < 4
    assert chi_square(np.bincount(columns.tokens[columns.tokens < 8])) < 4
    assert chi_square(np.bincount(columns.answers)) < 4


def test_arithmetic_is_symmetric_and_even() -> None:
    task = Arithmetic()
    parts, columns = samples(task, SplitSpec(((5, 6_000),)))
    assert chi_square(np.bincount(columns.tokens, minlength=14)[4:]) < 4
    assert chi_square(np.bincount(columns.tokens, minlength=14)[2:4]) < 4
    sides = np.zeros(2)
    for ids in parts[:2_000]:
        left, right = task.parse("".join(task.tokens[token] for token in ids)).children
        if left.depth != right.depth:
            sides[int(right.depth > left.depth)] += 1
    assert sides.sum() > 1_500 and chi_square(sides) < 4


def test_arithmetic_is_the_law_of_free_trees() -> None:
    """Depth 3 built directly against drawing freely and waiting: the number of operations has the same law."""
    _, built = samples(Arithmetic(), SplitSpec(((3, 4_000),)))
    rng = np.random.default_rng(0)

    def grow() -> tuple[int, int]:
        if rng.random() > 0.2:
            return 0, 0
        (left, first), (right, second) = grow(), grow()
        return 1 + left + right, 1 + max(first, second)

    waited = [operations for operations, depth in (grow() for _ in range(250_000)) if depth == 3]
    share = np.bincount(waited, minlength=6)[3:6] / len(waited)
    counts = np.bincount((built.lengths - 1) // 4, minlength=6)[3:6]
    # The comparison sample is itself drawn, so its noise adds to the statistic.
    assert chi_square(counts, share) * len(waited) / (len(waited) + len(built.lengths)) < 4


def test_paper_arithmetic_leans_as_in_the_paper() -> None:
    task = Arithmetic(variant="paper")
    expected_left = {"train": {3: 0.90, 4: 0.90, 5: 0.90}, "valid": {6: 0.12}, "test": {7: 0.03, 8: 0.89}}
    for split, depths in expected_left.items():
        spec = task.splits[split]
        spec = SplitSpec(scaled(spec.counts, 1_000), sub_operation=spec.sub_operation, sampler="rejection")
        parts, columns = samples(task, spec)
        for depth, share in depths.items():
            trees = [
                task.parse("".join(task.tokens[token] for token in ids)).children
                for ids, found in zip(parts, columns.depths, strict=True)
                if found == depth
            ]
            sides = [left.depth > right.depth for left, right in trees if left.depth != right.depth]
            assert np.mean(sides) == pytest.approx(share, abs=0.06), (split, depth)
        if split != "train":
            assert columns.lengths.mean() == pytest.approx({"valid": 33, "test": 40}[split], abs=1)
    assert (columns.answers == 0).mean() == pytest.approx(0.28, abs=0.04)


def test_listops_operations_and_digits() -> None:
    """Near the law of free trees given their depth, which needs SM more often the deeper it is."""
    task = ListOps()
    free = paper_plan(1, 5, 5, 50, 0.3)
    waited: dict[int, list[int]] = {1: [], 2: [], 3: []}
    sizes: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for index in range(40_000):
        tree = branch(Stream(5, index), free.law, 5, 50, 2)
        if tree and tree[2] in waited:
            waited[tree[2]] += tree[0]
            sizes[tree[2]].append(len(tree[0]))
    for depth, tokens in waited.items():
        _, columns = samples(task, SplitSpec(((depth, len(sizes[depth])),)))
        mine, other = (np.bincount(ids, minlength=15) for ids in (columns.tokens, np.asarray(tokens)))
        assert mine[10:14] / mine[10:14].sum() == pytest.approx(other[10:14] / other[10:14].sum(), abs=0.03)
        if depth > 1:
            # At depth 1 the short samples are few, so keeping each once makes the rest longer.
            assert columns.lengths.mean() == pytest.approx(np.mean(sizes[depth]), rel=0.08)
        assert mine[:10] / mine[:10].sum() == pytest.approx(np.full(10, 0.1), abs=0.01)
    # MIN and MAX mirror each other.
    assert chi_square(mine[[10, 12]]) < 4


def test_listops_wrapped_part_stands_anywhere() -> None:
    task = ListOps()
    parts, _ = samples(task, SplitSpec(((4, 3_000),)))
    places = np.zeros(3)
    for ids in parts:
        root = task.parse(" ".join(task.tokens[token] for token in ids))
        deep = [place for place, child in enumerate(root.children) if child.needed and child.depth == 3]
        if root.label == "[SM" and len(root.children) == 3 and len(deep) == 1:
            places[deep[0]] += 1
    assert places.sum() > 100 and chi_square(places) < 4


def test_paper_listops_statistics() -> None:
    """Lengths and operations that the paper's own generator gives."""
    task = ListOps(variant="paper")
    for split, count, length, operations in (("train", 4_000, 22.9, 4.9), ("valid", 1_000, 34.4, 7.7)):
        _, columns = samples(task, SplitSpec(scaled(task.splits[split].counts, count), sampler="rejection"))
        names = np.bincount(columns.tokens, minlength=15)
        assert columns.lengths.mean() == pytest.approx(length, abs=0.7)
        assert names[10:14].sum() / count == pytest.approx(operations, abs=0.2)
        assert columns.lengths.max() <= 43 and (names[13] / names[10:14].sum()) > 0.3
