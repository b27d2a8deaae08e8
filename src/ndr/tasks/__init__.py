"""Text and answers: compositional table lookup, simple arithmetic, ListOps, and the door for your own task."""

from ndr.tasks.arithmetic import Arithmetic
from ndr.tasks.listops import ListOps
from ndr.tasks.malformed import MalformedText
from ndr.tasks.node import Node
from ndr.tasks.registry import TASKS, get_task
from ndr.tasks.table_lookup import TableLookup
from ndr.tasks.task import SplitSpec, Task, balanced

__all__ = [
    "TASKS",
    "Arithmetic",
    "ListOps",
    "MalformedText",
    "Node",
    "SplitSpec",
    "TableLookup",
    "Task",
    "balanced",
    "get_task",
]
