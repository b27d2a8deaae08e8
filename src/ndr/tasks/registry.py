"""Tasks by name."""

import re
import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ndr.errors import Refusal, nearest
from ndr.tasks.arithmetic import Arithmetic
from ndr.tasks.listops import ListOps
from ndr.tasks.table_lookup import TableLookup
from ndr.tasks.task import Task

TASKS: dict[str, Task] = {
    "ctl-forward": TableLookup("forward"),
    "ctl-backward": TableLookup("backward"),
    "arithmetic": Arithmetic(),
    "listops": ListOps(),
}


def get_task(name: str, variant: str = "clean") -> Task:
    """The task with this name; `package.module:Name` or `file.py:Name` finds one of your own."""
    if ":" in name:
        return own_task(name)
    if name not in TASKS:
        raise Refusal(
            f'there is no task "{name}"{nearest(name, TASKS)}; use {", ".join(TASKS)}, or file.py:Name for your own'
        )
    if variant not in ("clean", "paper"):
        raise Refusal(f'there is no variant "{variant}"{nearest(variant, ("clean", "paper"))}; use clean or paper')
    task: Any = TASKS[name]
    chosen: Task = replace(task, variant=variant)
    return chosen


def own_task(place: str) -> Task:
    """Import a user's task from `package.module:Name` or `file.py:Name`."""
    source, _, attribute = place.rpartition(":")
    module = module_of(source)
    if not hasattr(module, attribute):
        raise Refusal(f'{source} has no "{attribute}"{nearest(attribute, vars(module))}')
    found = getattr(module, attribute)
    task = found() if isinstance(found, type) else found
    if not isinstance(task, Task):
        raise Refusal(f"{place} is not a task: derive its class from ndr.tasks.Task")
    return task


def module_of(source: str) -> ModuleType:
    if not source.endswith(".py"):
        try:
            return import_module(source)
        except ModuleNotFoundError as error:
            raise Refusal(f'there is no module "{error.name}"') from error
    if not Path(source).is_file():
        raise Refusal(f'there is no file "{source}"')
    # A name of its own, so that it hides no other module; dataclasses and inspect look it up there.
    name = "ndr_own_task_" + re.sub(r"\W", "_", str(Path(source).resolve()))
    spec = spec_from_file_location(name, source)
    if spec is None or spec.loader is None:
        raise Refusal(f'"{source}" cannot be imported')
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
