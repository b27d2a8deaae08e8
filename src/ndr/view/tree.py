"""The parse of a text as a flat list whose columns are those of a trace."""

from dataclasses import dataclass

from ndr.tasks import Node, Task


@dataclass(frozen=True)
class Vertex:
    """A node of the parse. `column` counts B as 0, as a trace does."""

    label: str
    column: int
    value: str
    height: int
    """operations on the longest path below and including it, needed or not"""
    needed: bool
    parent: int | None
    """its place in the list; parents come before their children"""
    children: tuple[int, ...]
    first: int
    last: int

    @property
    def is_operation(self) -> bool:
        return bool(self.children)


def tree_of(task: Task | None, text: str) -> list[Vertex] | None:
    """The tree of `text`, root first, or None for a task that cannot parse."""
    parse = getattr(task, "parse", None)
    return None if parse is None else flatten(parse(text))


def flatten(root: Node) -> list[Vertex]:
    """The nodes level by level, without recursion: texts may be nested thousands deep."""
    order: list[Node] = [root]
    parents: list[int | None] = [None]
    below: list[tuple[int, ...]] = []
    for place, node in enumerate(order):
        below.append(tuple(range(len(order), len(order) + len(node.children))))
        order.extend(node.children)
        parents.extend(place for _ in node.children)
    heights = [0] * len(order)
    for place in range(len(order) - 1, -1, -1):
        heights[place] = 1 + max(heights[child] for child in below[place]) if below[place] else 0
    return [
        Vertex(
            label=node.label,
            column=node.column + 1,
            value=node.value,
            height=heights[place],
            needed=node.needed,
            parent=parents[place],
            children=below[place],
            first=node.first + 1,
            last=node.last + 1,
        )
        for place, node in enumerate(order)
    ]
