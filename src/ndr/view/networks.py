"""From what a user names to a network that can be looked into, and to the task whose text it reads."""

from pathlib import Path

from ndr.errors import Refusal
from ndr.models import Network, NeuralDataRouter
from ndr.models.network import SHIPPED
from ndr.tasks import TASKS, Task, get_task


def open_network(run_or_name: str | Path) -> tuple[Network, Task | None]:
    """The best network of a run folder, a network saved by itself, or a shipped one by name; and its task.

    The config of a network saved by itself may name a user's own task as `file.py:Name`. Finding that would run code
    which a checkpoint names, so it is not looked for: such networks are shown without a parse tree.
    """
    from ndr.train.open import load_whole
    from ndr.train.open import open_network as open_run

    if (Path(run_or_name) / "recipe.json").is_file():
        opened = open_run(run_or_name)
        return opened.network, opened.task
    network = load_whole(run_or_name)
    return network, task_of(network)


def open_router(run_or_name: str | Path) -> tuple[NeuralDataRouter, Task | None]:
    """A network made of columns and steps; there is nothing to see in the others."""
    network, task = open_network(run_or_name)
    if not isinstance(network, NeuralDataRouter):
        raise Refusal(f'"{run_or_name}" is a {network.KIND} network without columns and steps; give a router')
    return network, task


def task_of(network: Network) -> Task | None:
    """The task that the network's settings name, if it is one of ours and has these tokens and answers."""
    settings = network.settings
    if settings.task not in TASKS:
        return None
    task = get_task(settings.task, settings.variant)
    return task if (task.tokens, task.answers) == (settings.tokens, settings.answers) else None


def display_name(run_or_name: str | Path) -> str:
    """The last part of a path that says something."""
    parts = [part for part in Path(run_or_name).resolve().parts if part not in ("best", "/")]
    return parts[-1] if parts else str(run_or_name)


def shipped_names() -> list[str]:
    return sorted(path.name for path in SHIPPED.glob("*/")) if SHIPPED.is_dir() else []
