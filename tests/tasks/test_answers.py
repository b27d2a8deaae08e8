"""Answers and depths of every task against an evaluator of another kind."""

import numpy as np
import pytest
import task_oracle as oracle

from ndr.tasks import TASKS, Arithmetic, ListOps, Node, TableLookup, get_task
from ndr.tasks.task import Columns


def texts_of(task, columns: Columns) -> list[str]:
    ends = np.cumsum(columns.lengths, dtype=np.int64)
    parts = np.split(columns.tokens, ends[:-1])
    return [task.join(task.tokens[token] for token in part) for part in parts]


def truth(task, text: str) -> tuple[str, int]:
    if isinstance(task, TableLookup):
        table = {
            letter: {f"{place:03b}": f"{value:03b}" for place, value in enumerate(task.tables[number])}
            for number, letter in enumerate(task.letters)
        }
        return oracle.lookup(text, task.direction == "forward", table)
    return oracle.arithmetic(text) if isinstance(task, Arithmetic) else oracle.listops(text)


@pytest.mark.parametrize("variant", ["clean", "paper"])
@pytest.mark.parametrize("name", TASKS)
def test_ten_thousand_samples_agree(name: str, variant: str) -> None:
    task = get_task(name, variant)
    parts = [
        ("train", 4_000),
        ("iid", 1_000),
        ("valid", 1_000),
        ("test", 1_000),
        ("depth-12", 1_500),
        ("depth-20", 1_500),
    ]
    if (name, variant) == ("listops", "paper"):
        # Thousands of draws a sample at depth 8: a few are enough here, the clean sampler covers the depth.
        parts = [("train", 8_400), ("iid", 1_000), ("valid", 595), ("test", 5)]
    checked = 0
    for split, count in parts:
        columns = task.fill(task.describe(split, count), key=11)
        for text, answer, depth in zip(texts_of(task, columns), columns.answers, columns.depths, strict=True):
            expected = truth(task, text)
            assert (task.answers[answer], int(depth)) == expected, text
            if checked % 7 == 0:
                assert (task.evaluate(text), task.depth(text)) == expected, text
            checked += 1
    assert checked == 10_000


def test_paper_examples() -> None:
    assert Arithmetic().evaluate("((4*7)+2)") == "0" and Arithmetic().depth("((4*7)+2)") == 2
    assert ListOps().evaluate("[MED 4 8 5 [MAX 8 4 9 ] ]") == "6"
    assert ListOps().depth("[MED 4 8 5 [MAX 8 4 9 ] ]") == 1
    forward, backward = TableLookup("forward"), TableLookup("backward")
    tables = dict(zip(forward.letters, forward.tables, strict=True))
    expected = tables["b"][tables["a"][tables["d"][0b101]]]
    assert forward.evaluate("101 d a b") == backward.evaluate("b a d 101") == f"{expected:03b}"
    assert forward.depth("101 d a b") == 3 and forward.evaluate("101") == "101"


def test_hand_computed_listops() -> None:
    task = ListOps()
    # MIN needs the first 2 only, which is a digit; the other 2 hides two operations.
    assert task.depth("[MIN 2 [SM 1 [MAX 1 0 ] ] ]") == 1
    assert task.depth("[MIN [SM 1 [MAX 1 0 ] ] 2 ]") == 3
    # MED of four needs the two in the middle: 3 (a list) and 5.
    assert task.evaluate("[MED 9 [SM 1 2 ] 5 0 ]") == "4" and task.depth("[MED 9 [SM 1 2 ] 5 0 ]") == 2
    assert task.evaluate("[SM 9 9 9 ]") == "7"


def pruned(node: Node, columns: list[str]) -> str:
    """The text in which every branch that is not needed is a digit of the same value."""
    out = list(columns)
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.needed:
            waiting += one.children
        else:
            out[one.first : one.last + 1] = [one.value] + [""] * (one.last - one.first)
    return " ".join(word for word in out if word)


def test_dropped_branches_do_not_matter() -> None:
    task = ListOps()
    columns = task.fill(task.describe("train", 3_000), key=5)
    shorter = 0
    for text in texts_of(task, columns):
        small = pruned(task.parse(text), task.tokenize(text))
        shorter += len(small) < len(text)
        assert oracle.listops(small) == (task.evaluate(text), task.depth(text)), text
        # Nothing is left to drop, so tree depth is dependency depth.
        assert oracle.nesting(small) == task.depth(text)
    assert shorter > 500


@pytest.mark.parametrize("name", TASKS)
def test_parse_shows_every_value(name: str) -> None:
    task = get_task(name)
    rng = np.random.default_rng(3)
    for depth in (1, 2, 5, 7):
        text = task.sample(rng, depth)
        root = task.parse(text)
        assert (root.value, root.depth, root.needed) == (task.evaluate(text), depth, True)
        words = task.tokenize(text)
        waiting, seen = [root], set()
        while waiting:
            node = waiting.pop()
            waiting += node.children
            assert words[node.column] == node.label and node.first <= node.column <= node.last
            assert node.column not in seen
            seen.add(node.column)
            part = task.join(words[node.first : node.last + 1])
            assert (task.evaluate(part), task.depth(part)) == (node.value, node.depth)


def test_deep_texts_need_no_recursion() -> None:
    deep = 20_000
    assert Arithmetic().depth("(1+" * deep + "1" + ")" * deep) == deep
    assert ListOps().parse("[SM 1 " * deep + "1" + " ]" * deep).depth == deep
    assert TableLookup().parse("000" + " a" * deep).depth == deep
