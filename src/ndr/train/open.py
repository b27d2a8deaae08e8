"""From the name of a run or of a shipped network to the network and its task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors import safe_open

from ndr.errors import Refusal
from ndr.models.network import Network, build, find, load
from ndr.models.outline import outline
from ndr.models.settings import ModelSettings
from ndr.tasks import Task
from ndr.train.checkpoint import checksum, is_intact, read_json
from ndr.train.folder import RunFolder
from ndr.train.memory import physical_memory
from ndr.train.recipe import apply_override, refusal_of, shipped_task
from ndr.whole import LONGEST_RECORD


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
        return Opened(folder.name, load_best(run), task or recipe.open_task(), recipe.task.seed, differences)
    network = load_whole(run_or_name)
    return Opened(folder.name, network, task or task_of(network), 0, ())


def with_settings(opened: Opened, changes: Sequence[str]) -> Opened:
    """The same weights under other settings, given as for a recipe: `model.update.squash=crisp`."""
    network = opened.network
    data: dict[str, Any] = {"model": network.settings.model_dump(mode="json")}
    for change in changes:
        if not change.startswith("model."):
            raise Refusal(f'only the model of a trained network can be changed, as model.key=value, not "{change}"')
        apply_override(data, change)
    try:
        settings = TypeAdapter(ModelSettings).validate_python(data["model"])
    except ValidationError as error:
        raise refusal_of(error, "model") from error
    with outline():
        other = build(settings)
    try:
        other.load_state_dict(network.state_dict(), assign=True)
    except RuntimeError as error:
        raise Refusal(f"a network with {', '.join(changes)} has other weights than {opened.name}") from error
    return replace(opened, network=other.eval())


def load_best(run: RunFolder) -> Network:
    """The best network of a run: its own, and as it was written."""
    file = run.best / "model.safetensors"
    try:
        network = load_whole(run.best)
        if metadata_of(file).get("run") not in (None, "", run.mark()):
            raise Refusal(f"{file} belongs to another run")
    except Refusal as refusal:
        if not run.last.is_file():
            raise
        mending = f"remove {run.result_file} and run the training again, which writes it anew from the checkpoint"
        raise Refusal(f"{refusal}; {mending}") from refusal
    return network


def load_whole(name_or_folder: str | Path) -> Network:
    """A network whose files are not larger than memory and, if they bear a checksum, as they were written."""
    folder = find(name_or_folder)
    settings, weights = folder / "config.json", folder / "model.safetensors"
    for file, most in ((settings, LONGEST_RECORD), (weights, physical_memory())):
        if file.is_file() and file.stat().st_size > most:
            raise Refusal(f"{file} has {file.stat().st_size / 2**30:,.1f} GiB, which is more than can be opened here")
    network = load(name_or_folder)
    if not is_intact(read_json(settings)):
        raise Refusal(f"{settings} is damaged: its checksum is another")
    if metadata_of(weights).get("checksum") not in (None, checksum(network.state_dict())):
        raise Refusal(f"{weights} is damaged: its checksum is another")
    return network


def metadata_of(weights: Path) -> dict[str, str]:
    with safe_open(weights, framework="pt") as file:
        return dict(file.metadata() or {})


def task_of(network: Network) -> Task:
    settings = network.settings
    if settings.task is None:
        raise Refusal("this network does not say which task it was made for; name it with --task")
    return shipped_task(settings.task, settings.variant)
