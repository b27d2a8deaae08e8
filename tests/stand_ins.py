"""The texts of the paper's three tasks, as far as networks need to know them."""

from typing import NamedTuple


class Texts(NamedTuple):
    name: str
    tokens: tuple[str, ...]
    answers: tuple[str, ...]


SYMBOLS = tuple(f"{number:03b}" for number in range(8))
TASKS = {
    "ctl": Texts("ctl-forward", (*SYMBOLS, *"abcdefghijk"), SYMBOLS),
    "arithmetic": Texts("arithmetic", tuple("()*+0123456789"), tuple("0123456789")),
    "listops": Texts("listops", (*"0123456789", "[MAX", "[MED", "[MIN", "[SM", "]"), tuple("0123456789")),
}
