"""Batches hold the samples; samplers are pure functions of the iteration."""

from collections import Counter

import numpy as np
import pytest

from ndr.data import Equal, LengthBucketed, Uniform, Vocabulary, longest_first, open_split
from ndr.errors import Refusal
from ndr.tasks import get_task


@pytest.fixture
def split():
    return open_split(get_task("arithmetic"), "iid", count=211)


def test_batch_holds_its_samples(split) -> None:
    chosen = np.asarray([5, 0, 113, 5, 210])
    batch = split.batch(chosen)
    for row, index in enumerate(chosen):
        length = int(split.lengths[index])
        assert batch.tokens[row, :length].tolist() == split.tokens(index).tolist()
        assert not batch.tokens[row, length:].any()
        assert int(batch.lengths[row]) == length
        assert split.task.answers[int(batch.answers[row])] == split.task.evaluate(split.text(index))
    assert batch.tokens.shape[1] == split.lengths[chosen].max()
    assert str(batch.tokens.dtype) == str(batch.answers.dtype) == "torch.int64"


def test_equal_lengths_need_no_lengths(split) -> None:
    same = np.flatnonzero(split.lengths == 13)[:7]
    batch = split.batch(same)
    assert batch.lengths is None and tuple(batch.tokens.shape) == (7, 13)
    assert split.batch([3]).lengths is None


def test_indices(split) -> None:
    assert split.text(-1) == split.text(210)
    with pytest.raises(IndexError):
        split.text(211)


def test_vocabulary() -> None:
    words = Vocabulary.of(get_task("listops"))
    assert words.decode(words.encode(["[MAX", "3", "]"])) == ["[MAX", "3", "]"]
    assert words.encode(["0", "[MAX", "[MED", "[MIN", "[SM", "]"]) == [0, 10, 11, 12, 13, 14]
    assert words.decode_answer(words.encode_answer("7")) == "7"
    with pytest.raises(Refusal):
        words.encode(["x"])


def test_token_order() -> None:
    assert get_task("arithmetic").tokens[:5] == ("(", ")", "*", "+", "0") and len(get_task("arithmetic").tokens) == 14
    assert get_task("ctl-forward").tokens[7:9] == ("111", "a") and len(get_task("ctl-forward").tokens) == 17
    assert len(get_task("ctl-forward", "paper").tokens) == 19 and len(get_task("listops").tokens) == 15


LENGTHS = np.repeat([3, 5, 7, 11], [13, 29, 53, 8])


def test_length_bucketed_passes() -> None:
    sampler = LengthBucketed(LENGTHS, 10, seed=4)
    for number in range(3):
        batches = [sampler.at(number * 10 + place) for place in range(10)]
        everything = np.concatenate(batches)
        assert len(everything) == 100 == len(set(everything.tolist()))
        # At most one batch per boundary between two lengths is mixed.
        assert sum(len(set(LENGTHS[batch])) > 1 for batch in batches) <= 3
    assert not np.array_equal(
        np.concatenate([sampler.at(i) for i in range(10)]), np.concatenate([sampler.at(i) for i in range(10, 20)])
    )


@pytest.mark.parametrize(
    "make", [lambda: LengthBucketed(LENGTHS, 10, 4), lambda: Equal(LENGTHS, 9, 4), lambda: Uniform(103, 10, 4)]
)
def test_resuming_needs_only_the_iteration(make) -> None:
    walked = make()
    batches = [walked.at(iteration) for iteration in range(75)]
    for iteration in (74, 13, 41, 0):
        assert np.array_equal(make().at(iteration), batches[iteration])


def test_equal_groups() -> None:
    sampler = Equal(LENGTHS, 9, seed=7)
    visits = [sampler.at(iteration) for iteration in range(4 * 40)]
    assert all(len(set(LENGTHS[batch])) == 1 and len(batch) == 9 for batch in visits)
    assert set(Counter(int(LENGTHS[batch[0]]) for batch in visits).values()) == {40}
    # Inside a group every sample comes equally often, to one.
    seen = Counter(int(index) for batch in visits for index in batch)
    for length in (3, 5, 7, 11):
        counts = [seen[int(index)] for index in np.flatnonzero(length == LENGTHS)]
        assert max(counts) - min(counts) <= 1


def test_uniform_is_uniform() -> None:
    sampler = Uniform(17, 100, seed=1)
    counts = np.bincount(np.concatenate([sampler.at(iteration) for iteration in range(100)]), minlength=17)
    expected = 10_000 / 17
    assert ((counts - expected) ** 2 / expected).sum() < 40


def test_longest_first() -> None:
    batches = longest_first(LENGTHS, 20)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(LENGTHS))) and len(batches[-1]) == 3
    assert (np.diff(LENGTHS[np.concatenate(batches)]) <= 0).all()


def test_impossible_batches_are_refused() -> None:
    for batch in (0, 104):
        with pytest.raises(Refusal):
            LengthBucketed(LENGTHS, batch, 0)
