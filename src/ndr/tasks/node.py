"""The parse of a sample: every operation and digit with its true value."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """One operation, function, digit or symbol of a sample."""

    label: str
    # Which token stands for it: an index into `tokenize(text)`.
    column: int
    value: str
    # Operations on the longest needed path below and including this node.
    depth: int
    # False when some operation above does not select the branch it is in.
    needed: bool
    children: tuple["Node", ...] = field(default=(), repr=False)
    # First and last column of its text.
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class Flat:
    """A node while a text is being read. Nodes are listed in the order in which they open, parents first."""

    label: str
    column: int
    first: int
    last: int = 0
    value: str = ""
    depth: int = 0
    children: list[int] = field(default_factory=list)
    selected: frozenset[int] = frozenset()


def freeze(flat: list[Flat], root: int = 0) -> Node:
    """The tree under `root`, without recursion: texts may be nested thousands deep."""
    needed = [False] * len(flat)
    needed[root] = True
    order = [root]
    for index in order:
        for place, child in enumerate(flat[index].children):
            needed[child] = needed[index] and place in flat[index].selected
            order.append(child)
    made: dict[int, Node] = {}
    for index in reversed(order):
        node = flat[index]
        children = tuple(made[child] for child in node.children)
        made[index] = Node(
            node.label, node.column, node.value, node.depth, needed[index], children, node.first, node.last
        )
    return made[root]
