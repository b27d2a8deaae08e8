"""What arithmetic and ListOps share: texts of digits and nested operations, read as trees."""

from abc import abstractmethod
from collections.abc import Iterable
from itertools import accumulate

from ndr.tasks.malformed import check_size, few_enough
from ndr.tasks.node import Flat, Node, freeze
from ndr.tasks.task import Task

DIGITS = tuple("0123456789")
# The longest samples that are built; longer ones would take minutes each.
MOST_TOKENS = 10_000


class Nested(Task):
    """A task whose texts are trees. What stands where is for `split` and `read` to say; the rest follows."""

    @abstractmethod
    def split(self, text: str) -> list[tuple[str, int]]:
        """The tokens, each with the position of its first character."""

    @abstractmethod
    def read(self, text: str) -> list[Flat]:
        """The nodes in the order in which they open."""

    @property
    def answers(self) -> tuple[str, ...]:
        return DIGITS

    def symbols(self, text: str) -> list[tuple[str, int]]:
        """The tokens and their positions, of a text that is neither empty nor endless."""
        check_size(text)
        return few_enough(self.split(text))

    def tokenize(self, text: str) -> list[str]:
        return [symbol for symbol, _ in self.symbols(text)]

    def evaluate(self, text: str) -> str:
        return self.read(text)[0].value

    def depth(self, text: str) -> int:
        """Operations on the longest path of the tree without unneeded branches."""
        return self.read(text)[0].depth

    def parse(self, text: str) -> Node:
        """The whole tree; nodes in branches that no operation above selects have `needed=False`."""
        return freeze(self.read(text))


def highest(changes: Iterable[int]) -> int:
    """The deepest nesting: a token that opens an operation counts 1, one that closes it −1, any other 0."""
    return max(accumulate(changes, initial=0))
