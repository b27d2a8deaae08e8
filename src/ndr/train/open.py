"""From the name of a run or of a shipped network to the network and its task."""

from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

from ndr.errors import Refusal
from ndr.models.network import Network, find, load
from ndr.tasks import Task
from ndr.train.checkpoint import LONGEST_RECORD, checksum
from ndr.train.folder import RunFolder
from ndr.train.memory import physical_memory
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
        return Opened(folder.name, load_whole(run.best), task or recipe.open_task(), recipe.task.seed, differences)
    network = load_whole(run_or_name)
    return Opened(folder.name, network, task or task_of(network), 0, ())


def load_whole(name_or_folder: str | Path) -> Network:
    """A network whose files are not larger than memory and, if they bear a checksum, as they were written."""
    folder = find(name_or_folder)
    for name, most in (("config.json", LONGEST_RECORD), ("model.safetensors", physical_memory())):
        file = folder / name
        if file.is_file() and file.stat().st_size > most:
            raise Refusal(f"{file} has {file.stat().st_size / 2**30:,.1f} GiB, which is more than can be opened here")
    try:
        network = load(name_or_folder)
    except Refusal as refusal:
        raise Refusal(f"{refusal}{mending(folder)}") from refusal
    file = folder / "model.safetensors"
    with safe_open(file, framework="pt") as weights:
        said = (weights.metadata() or {}).get("checksum")
    if said is not None and said != checksum(network.state_dict()):
        raise Refusal(f"{file} is damaged: its checksum is another{mending(folder)}")
    return network


def mending(folder: Path) -> str:
    """What to do about a damaged network: that of a run is kept in the run's checkpoint too."""
    run = RunFolder(folder.parent)
    if folder.name != run.best.name or not run.last.is_file():
        return ""
    return f"; remove {run.result_file} and run the training again, which writes it anew from the checkpoint"


def task_of(network: Network) -> Task:
    settings = network.settings
    if settings.task is None:
        raise Refusal("this network does not say which task it was made for; name it with --task")
    return shipped_task(settings.task, settings.variant)
