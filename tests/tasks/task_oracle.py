"""Answers and depths by another road: text is rewritten or handed to Python, nothing of the package is used."""

import re
import statistics


def arithmetic(text: str) -> tuple[str, int]:
    # Only digits, brackets and signs reach eval; Python's own integers do the arithmetic.
    assert re.fullmatch(r"[()+*0-9]+", text)
    depth = max((text[:end].count("(") - text[:end].count(")") for end in range(1, len(text) + 1)), default=0)
    return str(eval(text) % 10), depth


def listops(text: str) -> tuple[str, int]:
    """Innermost lists are replaced by `value:depth` until one is left."""
    text = re.sub(r"(?<!\S)(\d)(?!\S)", r"\1:0", text)
    innermost = re.compile(r"\[(MAX|MED|MIN|SM)((?: \d:\d+)+) \]")
    while text.startswith("["):
        text = innermost.sub(lambda found: "{}:{}".format(*one_list(found[1], found[2].split())), text)
    value, depth = text.split(":")
    return value, int(depth)


def one_list(name: str, words: list[str]) -> tuple[int, int]:
    pairs = [tuple(map(int, word.split(":"))) for word in words]
    values = [value for value, _ in pairs]
    if name == "SM":
        return sum(values) % 10, 1 + max(depth for _, depth in pairs)
    if name == "MED":
        # A stable sort by value alone: the first of equals comes first.
        ranked = sorted(pairs, key=lambda pair: pair[0])
        half = len(ranked) // 2
        middle = [ranked[half]] if len(ranked) % 2 else ranked[half - 1 : half + 1]
        return int(statistics.median(values)), 1 + max(depth for _, depth in middle)
    value = {"MAX": max, "MIN": min}[name](values)
    return value, 1 + next(depth for one, depth in pairs if one == value)


def lookup(text: str, forward: bool, table: dict[str, dict[str, str]]) -> tuple[str, int]:
    words = text.split()
    if not forward:
        words.reverse()
    symbol = words[0]
    for word in words[1:]:
        symbol = table[word][symbol]
    return symbol, len(words) - 1


def nesting(text: str) -> int:
    """Deepest nesting of square brackets."""
    level = deepest = 0
    for symbol in text:
        level += (symbol == "[") - (symbol == "]")
        deepest = max(deepest, level)
    return deepest
