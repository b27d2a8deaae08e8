"""The native library and plain Python draw the same bytes; splits beyond the paper hold what they promise."""

import numpy as np
import pytest

from ndr.errors import Refusal
from ndr.tasks import TASKS, get_task
from ndr.tasks import fill as fill_module
from ndr.tasks.stream import Stream, held_out, key_of, mix
from ndr.tasks.task import balanced, mix_array, scaled


def equal(one, other) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        and getattr(one, name).dtype == getattr(other, name).dtype
        for name in ("tokens", "lengths", "answers", "depths")
    )


@pytest.mark.skipif(fill_module.library() is None, reason="the native library was not built")
@pytest.mark.parametrize("variant", ["clean", "paper"])
@pytest.mark.parametrize("name", TASKS)
def test_native_and_plain_give_the_same_bytes(name: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = get_task(name, variant)
    wanted = [("train", 211), ("iid", 31), ("valid", 13), ("depth-4", 11), ("depth-17", 7), ("depth-9-11", 5)]
    if name == "listops":
        wanted += [("depth-3,arguments-6-7", 5), ("depth-10,length-80-90", 5)]
    if name == "arithmetic":
        wanted += [("depth-9,length-100-200", 7)]
    specs = [task.describe(split, count) for split, count in wanted]
    native = [task.fill(spec, 7) for spec in specs]
    monkeypatch.setattr(fill_module, "library", lambda: None)
    for spec, one in zip(specs, native, strict=True):
        assert equal(one, task.fill(spec, 7)), spec


BEYOND = [
    ("ctl-forward", "depth-100", 101, 101),
    ("ctl-backward", "depth-1000", 1001, 1001),
    ("arithmetic", "depth-30", 121, 182),
    ("arithmetic", "depth-300", 1201, 1802),
    ("arithmetic", "depth-8,length-900-1000", 900, 1000),
    ("listops", "depth-9", 28, 56),
    ("listops", "depth-30", 91, 182),
    ("listops", "depth-300", 901, 1802),
    ("listops", "depth-10,length-1000", 1000, 1000),
    ("listops", "depth-2-20,length-100-200", 100, 200),
    ("listops", "depth-3,arguments-6-10", 22, 1000),
    ("listops", "depth-2,arguments-50", 103, 206),
    ("listops", "depth-16,length-49-50", 49, 50),
]


@pytest.mark.parametrize(("name", "split", "shortest", "longest"), BEYOND)
def test_beyond_the_paper(name: str, split: str, shortest: int, longest: int) -> None:
    task = get_task(name)
    spec = task.describe(split, 40)
    columns = task.fill(spec, 3)
    assert dict(zip(*np.unique(columns.depths, return_counts=True), strict=True)) == {d: n for d, n in spec.counts if n}
    assert shortest <= columns.lengths.min() and columns.lengths.max() <= longest
    parts = np.split(columns.tokens, np.cumsum(columns.lengths, dtype=np.int64)[:-1])
    for ids, depth, answer in list(zip(parts, columns.depths, columns.answers, strict=True))[:20]:
        text = task.join(task.tokens[token] for token in ids)
        assert (task.depth(text), task.evaluate(text)) == (depth, task.answers[answer])
        if spec.arguments:
            waiting = [task.parse(text)]
            while waiting:
                node = waiting.pop()
                waiting += node.children
                assert not node.children or spec.arguments[0] <= len(node.children) <= spec.arguments[1]


IMPOSSIBLE = [
    ("listops", "depth-20,length-50"),
    ("listops", "depth-3,arguments-1"),
    ("listops", "depth-3,arguments-200"),
    ("listops", "depth-2,arguments-50,length-110-150"),
    ("listops", "depth-3,length-20000"),
    ("arithmetic", "depth-3,length-30-50"),
    ("arithmetic", "depth-5,length-22-24"),
    ("arithmetic", "depth-5,arguments-3"),
    ("ctl-forward", "depth-5,length-9"),
]


@pytest.mark.parametrize(("name", "split"), IMPOSSIBLE)
def test_impossible_splits_are_refused(name: str, split: str) -> None:
    task = get_task(name)
    with pytest.raises(Refusal):
        task.fill(task.describe(split, 5), 0)


@pytest.mark.parametrize("plain", [False, True])
def test_too_few_samples_are_noticed(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if plain:
        monkeypatch.setattr(fill_module, "library", lambda: None)
    with pytest.raises(Refusal, match="not enough different samples"):
        get_task("ctl-forward").fill(get_task("ctl-forward").describe("depth-2", 200), 0)
    with pytest.raises(Refusal, match="not enough different samples"):
        # Train has every expression with one operation, so none is left.
        get_task("arithmetic").fill(get_task("arithmetic").describe("depth-1", 10), 0)


def test_stream_is_splitmix64() -> None:
    # The published first outputs of SplitMix64 with seed 1234567.
    stream = Stream(0)
    stream.state = 1234567
    assert [stream.bits() for _ in range(3)] == [
        6457827717110365317 >> 32,
        3203168211198807973 >> 32,
        9817491932198370423 >> 32,
    ]
    words = np.asarray([0, 1, 2**63, 2**64 - 1], np.uint64)
    assert mix_array(words).tolist() == [mix(int(word)) for word in words]
    assert key_of("a", 1) == key_of("a", 1) != key_of("a", 2)


def test_one_in_eight_is_held_out() -> None:
    share = np.mean([held_out([a, b, c, d]) for a in range(9) for b in range(9) for c in range(9) for d in range(9)])
    assert share == pytest.approx(1 / 8, abs=0.02)


def test_counts() -> None:
    assert balanced(range(1, 4), 11) == ((1, 4), (2, 4), (3, 3))
    assert scaled(((1, 10), (2, 30)), 9) == ((1, 2), (2, 7))
