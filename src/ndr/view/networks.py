"""From what a user names to a network that can be looked into, and to the task whose text it reads."""

from pathlib import Path

from ndr.errors import Refusal
from ndr.models import Network, NeuralDataRouter, load
from ndr.models.network import SHIPPED
from ndr.tasks import TASKS, Task, get_task


def open_network(run_or_name: str | Path) -> Network:
    """The network of a run folder (its best weights), of a folder written by `save_pretrained`, or a shipped one."""
    best = Path(run_or_name) / "best"
    return load(best if best.is_dir() else run_or_name)


def open_router(run_or_name: str | Path) -> NeuralDataRouter:
    """A network made of columns and steps; there is nothing to see in the others."""
    network = open_network(run_or_name)
    if not isinstance(network, NeuralDataRouter):
        raise Refusal(f'"{run_or_name}" is a {network.KIND} network without columns and steps; give a router')
    return network


def display_name(run_or_name: str | Path) -> str:
    """The last part of a path that says something."""
    parts = [part for part in Path(run_or_name).resolve().parts if part not in ("best", "/")]
    return parts[-1] if parts else str(run_or_name)


def shipped_names() -> list[str]:
    return sorted(path.name for path in SHIPPED.glob("*/")) if SHIPPED.is_dir() else []


def task_of(network: Network) -> Task | None:
    """The task whose text the network reads, if it is one of ours.

    A config may also name a user's own task as `file.py:Name`. Finding that would run code which a checkpoint
    names, so it is not looked for: such networks are shown without a parse tree.
    """
    settings = network.settings
    if settings.task not in TASKS:
        return None
    for variant in ("clean", "paper"):
        task = get_task(settings.task, variant)
        if task.tokens == settings.tokens and task.answers == settings.answers:
            return task
    return None
