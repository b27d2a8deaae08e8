"""From the name of a run or of a shipped network to the network and its task."""

from dataclasses import dataclass
from pathlib import Path

from ndr.errors import Refusal
from ndr.models.network import Network, load
from ndr.tasks import Task
from ndr.train.folder import RunFolder
from ndr.train.recipe import shipped_task


@dataclass(frozen=True)
class Opened:
    """A trained network, its task, and what differs from when it was made."""

    name: str
    network: Network
    task: Task
    data_seed: int
    differences: tuple[str, ...]


def open_network(run_or_name: str | Path, task: Task | None = None) -> Opened:
    """The best network of a run folder, a network saved by itself, or a shipped one by name."""
    folder = Path(run_or_name)
    if (folder / "recipe.json").is_file():
        run = RunFolder(folder)
        recipe, _ = run.recipe()
        if not run.best.is_dir():
            raise Refusal(f"{folder} has no network yet: it was stopped before its first evaluation; train it further")
        differences = tuple(run.differences())
        return Opened(folder.name, load(run.best), task or recipe.open_task(), recipe.task.seed, differences)
    network = load(run_or_name)
    return Opened(folder.name, network, task or task_of(network), 0, ())


def task_of(network: Network) -> Task:
    settings = network.settings
    if settings.task is None:
        raise Refusal("this network does not say which task it was made for; name it with --task")
    return shipped_task(settings.task, settings.variant)
