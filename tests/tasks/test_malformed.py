"""Text that is not a sample is refused with its position and one reason, whatever it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndr.errors import Refusal
from ndr.tasks import TASKS, Arithmetic, ListOps, MalformedText, TableLookup, get_task
from ndr.tasks.malformed import MAX_TOKENS

CASES = [
    (Arithmetic(), "", "empty input at 0"),
    (Arithmetic(), "   ", "empty input at 0"),
    (Arithmetic(), "(4*7))", 'unbalanced ")" at 5'),
    (Arithmetic(), "((4*7)+2))", 'unbalanced ")" at 9'),
    (Arithmetic(), "(1+x)", 'unknown symbol "x" at 3'),
    (Arithmetic(), "(1+٣)", 'unknown symbol "٣" at 3'),
    (Arithmetic(), "(1+²)", 'unknown symbol "²" at 3'),
    (Arithmetic(), "(1+\t)", 'unknown symbol "\\t" at 3'),
    (Arithmetic(), "(+1)", 'operator "+" without a left argument at 1'),
    (Arithmetic(), "(1+)", 'operator "+" without a right argument at 3'),
    (Arithmetic(), "(1+*2)", 'operator "+" without a right argument at 3'),
    (Arithmetic(), "(1+2*3)", 'second operator "*" in one pair of brackets at 4'),
    (Arithmetic(), "(12+3)", 'missing operator before "2" at 2'),
    (Arithmetic(), "((1+2)", 'unclosed "(" at 0'),
    (Arithmetic(), "(1)", "brackets without an operator at 2"),
    (Arithmetic(), "1+2", 'operator "+" outside brackets at 1'),
    (Arithmetic(), "(1+2)(3+4)", 'second expression "(" at 5'),
    (ListOps(), "[MAX ]", 'operator "[MAX" without arguments at 0'),
    (ListOps(), "[MAX 1 2", 'unclosed "[MAX" at 0'),
    (ListOps(), "[MAX 1 2 ] ]", 'unbalanced "]" at 11'),
    (ListOps(), "]", 'unbalanced "]" at 0'),
    (ListOps(), "[MAX 1 12 ]", 'unknown symbol "12" at 7'),
    (ListOps(), "[SUM 1 2 ]", 'unknown symbol "[SUM" at 0'),
    (ListOps(), "[MAX 1 ２ ]", 'unknown symbol "２" at 7'),
    (ListOps(), "[MAX 1 2 ] 3", '"3" after the end at 11'),
    (TableLookup("forward"), "a 101", "symbol"),
    (TableLookup("forward"), "a b", "functions without a symbol at 0"),
    (TableLookup("forward"), "101 a z", 'unknown symbol "z" at 6'),
    (TableLookup("forward"), "101 a 000", 'symbol "000" that is not first at 6'),
    (TableLookup("backward"), "101 a", 'symbol "101" that is not last at 0'),
    (TableLookup("forward"), "101  j", 'unknown symbol "j" at 5'),
]


@pytest.mark.parametrize(("task", "text", "message"), CASES)
def test_position_and_reason(task, text: str, message: str) -> None:
    for ask in (task.evaluate, task.depth, task.parse):
        with pytest.raises(MalformedText) as refused:
            ask(text)
        assert str(refused.value).startswith(message)
        assert str(refused.value) == f"{refused.value.reason} at {refused.value.position}"


@pytest.mark.parametrize("name", TASKS)
def test_too_long(name: str) -> None:
    task = get_task(name)
    for text in ("( " * (MAX_TOKENS + 1), "1 " * (MAX_TOKENS + 1), "101 " + "a " * (MAX_TOKENS + 1), "(" * 10_000_000):
        with pytest.raises(MalformedText):
            task.evaluate(text)


def test_blanks_and_glued_brackets_are_read() -> None:
    assert Arithmetic().evaluate(" ( (4*7) + 2 ) ") == "0"
    assert ListOps().evaluate("[MAX 2 [MIN 4 7]]") == "4"
    assert ListOps().tokenize("[MAX 2 [MIN 4 7]]") == ["[MAX", "2", "[MIN", "4", "7", "]", "]"]
    assert TableLookup().evaluate("  101  ") == "101"


PIECES = st.sampled_from(
    [
        "(",
        ")",
        "+",
        "*",
        "1",
        "9",
        " ",
        "[MAX",
        "[MED ",
        "]",
        "101",
        "000",
        "a",
        "b ",
        "x",
        "٣",
        "\n",
        "[",
        "é",
        "\x00",
        "\ud800",
    ]
)
ANYTHING = st.one_of(
    st.text(max_size=40), st.lists(PIECES, max_size=25).map("".join), st.lists(PIECES, max_size=15).map(" ".join)
)


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=800, deadline=None)
@given(text=ANYTHING)
def test_never_a_traceback(name: str, text: str) -> None:
    task = get_task(name)
    try:
        answer, depth, root = task.evaluate(text), task.depth(text), task.parse(text)
    except MalformedText as refused:
        assert 0 <= refused.position <= len(text) and "\n" not in str(refused)
        return
    assert answer in task.answers and depth >= 0 and (root.value, root.depth) == (answer, depth)


@pytest.mark.parametrize("name", ["arithmetic", "listops"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_damaged_token(name: str, data: st.DataObject) -> None:
    """A sample that lost or doubled one bracket is never accepted."""
    import numpy as np

    task = get_task(name)
    text = task.sample(np.random.default_rng(data.draw(st.integers(0, 2**32))), data.draw(st.integers(1, 5)))
    words = task.tokenize(text)
    brackets = [place for place, word in enumerate(words) if word in ("(", ")", "]") or word.startswith("[")]
    place = data.draw(st.sampled_from(brackets))
    for damaged in ([*words[:place], *words[place + 1 :]], [*words[: place + 1], *words[place:]]):
        with pytest.raises(MalformedText):
            task.evaluate(task.join(damaged))


def test_names() -> None:
    with pytest.raises(Refusal, match='did you mean "listops"'):
        get_task("listop")
    with pytest.raises(Refusal, match='did you mean "paper"'):
        get_task("listops", "papers")
    with pytest.raises(Refusal, match='did you mean "train"'):
        get_task("listops").describe("trian")
    for wrong in ("depth-0", "depth-5-3", "length-5", "depth-3,depth-4", "depth-1001", "depth-٣"):
        with pytest.raises(Refusal):
            get_task("listops").describe(wrong)
    with pytest.raises(TypeError):
        ListOps(arguments=3)
