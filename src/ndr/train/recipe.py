"""A recipe: all settings of one training run, as typed data."""

import json
import math
import tomllib
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from ndr.errors import Refusal, nearest
from ndr.models.presets import PRESETS
from ndr.models.settings import (
    Absolute,
    AbsoluteRelative,
    CopyGated,
    DNCSettings,
    Geometric,
    ModelSettings,
    Rate,
    RecurrentSettings,
    Relative,
    Residual,
    RouterSettings,
    Settings,
    Size,
)
from ndr.tasks import TASKS, Task, get_task

SHIPPED = Path(__file__).parent / "recipes"
LONGEST_FILE = 2**20
KINDS = {
    kind.model_fields["kind"].default
    for kind in (
        *(RouterSettings, RecurrentSettings, DNCSettings),
        *(Geometric, Relative, AbsoluteRelative, Absolute, CopyGated, Residual),
    )
}


class TaskSettings(Settings):
    """Which data the run sees."""

    name: str
    variant: str = "clean"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """of the data; the run has its own"""


class Optimiser(Settings):
    """How weights follow gradients."""

    kind: Literal["adamw", "adam", "muon", "soap"] = "adamw"
    """muon: for the matrices inside the layer; the rest follows AdamW at the same learning rate. soap: AdamW for each
    matrix in the eigenvectors of its gradients"""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    clip: Annotated[float, Field(gt=0)] | None = 5.0
    """largest norm of the gradient"""
    warm_up: Annotated[int, Field(ge=0)] = 0
    """iterations until the learning rate is reached"""
    decay: Literal["constant", "linear", "cosine"] = "constant"
    """how it falls from there to the end of the run"""
    hold: Rate = 0.0
    """the share of the iterations before it begins to fall"""
    betas: tuple[Rate, Rate] = (0.9, 0.999)
    """memory of the gradient's mean and of its square"""
    scalar_rate: Annotated[float, Field(gt=0)] = 1.0
    """learning rate of the attention's few scalars, as a part of the others'; if not 1, without weight decay"""
    averaging: Annotated[float, Field(ge=0, lt=1)] | None = None
    """evaluate an exponential average of the weights with this memory, such as 0.999"""


class Curriculum(Settings):
    """Begin with the smallest problems and let them grow: the next size comes once the newest is solved."""

    grows: Literal["depth", "length", "operations"] = "depth"
    """operations: their number, after single ones have grown by length"""
    solved: Annotated[float, Field(gt=0, le=1)] = 0.9
    """running accuracy on the newest depth, in training"""
    newest: Annotated[float, Field(gt=0, le=1)] = 0.5
    """share of batches with the newest size, until the last one is reached"""


class Linger(Settings):
    """Some batches take more steps than they need: finished columns learn to stand still, and waiting ones to wait."""

    most: Size
    """steps more"""
    share: Annotated[float, Field(gt=0, le=1)] = 0.3
    """of the batches"""
    begin: Rate = 0.0
    """the share of the iterations after which this begins"""
    sleep: Rate | None = None
    """in these batches a column sleeps through a step with this chance (gate dropout): none may rely on timing"""
    late: bool = False
    """in these batches some neighbouring columns wake up only after the additional steps: the others wait for them"""
    inside: bool = False
    """those who are late are the columns of one whole problem inside the problem, as if it took so long to solve"""
    rest: Annotated[float, Field(ge=0, le=1_000)] = 0.0
    """weight in the loss of what gates let through in the additional steps, instead of thrift: all is done by then.
    With `sleep` or `late`, in half of these batches columns sleep or are late and in the others they rest"""

    @model_validator(mode="after")
    def _inside_who_is_late(self) -> "Linger":
        if self.inside and not self.late:
            raise ValueError("inside says who is late, so late must be true")
        return self


class TrainingSteps(Settings):
    """Draw the steps of each batch: from low to high, plus so many for each level of depth and for each column."""

    low: Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
    high: Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
    per_depth: Annotated[float, Field(ge=0, le=1_000)] = 0.0
    per_column: Annotated[float, Field(ge=0, le=1_000)] = 0.0
    linger: Linger | None = None
    most: Size = 1_000_000
    """no batch takes more, lingering or not"""

    @model_validator(mode="after")
    def _ordered(self) -> "TrainingSteps":
        if self.high < self.low or self.low + self.per_depth < 1:
            raise ValueError("steps need low <= high, and at least one step at depth 1")
        return self


class Sharpening(Settings):
    """Let gates and matches turn crisp on the way: their stretches grow from a share of the settings' to all."""

    least: Annotated[float, Field(ge=0, le=1)] = 0.0
    begin: Rate = 0.3
    """the share of the iterations after which they grow"""
    end: Annotated[float, Field(gt=0, le=1)] = 0.8
    power: Annotated[float, Field(ge=1, le=10)] = 1.0
    """1: they grow evenly; more: slowly at first"""

    @model_validator(mode="after")
    def _ordered(self) -> "Sharpening":
        if self.end <= self.begin:
            raise ValueError("sharpening must end after it begins")
        return self

    def share(self, done: float) -> float:
        grown = math.pow(min(max((done - self.begin) / (self.end - self.begin), 0.0), 1.0), self.power)
        return self.least + (1 - self.least) * grown


class Surroundings(Settings):
    """Some batches stand amid random tokens, and the answer is asked of the problem's own first or last column.

    Whatever a column does for a whole problem it must then do wherever that problem stands, so also inside another.
    """

    ask: Literal["first", "last"]
    """the column of the problem that is asked"""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.7
    """of the batches; the others are asked at the model's readout"""
    most: Size = 4
    """random tokens on either side"""
    across: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """in half of the other batches up to so many random tokens stand between the problem's first or last column and the
    readout at the other end: it must find the answer across them"""


class Selection(Settings):
    """Look at more samples than a batch holds and learn from those with the highest losses: most are long solved."""

    pool: Annotated[int, Field(ge=2, le=1_000)]
    """times as many samples are looked at"""
    begin: Rate = 0.0
    """the share of the iterations after which this begins"""


class Recipe(Settings):
    """One training run, but for its seed."""

    name: Annotated[str, Field(max_length=200, pattern=r"^[^/\\\x00-\x1f.][^/\\\x00-\x1f]*$")]
    """the folder of its runs bears it, so it is a name and no path"""
    task: TaskSettings
    model: ModelSettings
    start: str | None = None
    """a run or the name of a shipped network: begin with its weights instead of random ones. Or the name of a recipe:
    begin with its run of the same seed, which is trained first in a folder beside this run's"""
    optimiser: Optimiser = Optimiser()
    batch: Size = 128
    sampling: Literal["uniform", "bucketed", "equal-length", "equal-depth", "by-depth"] = "bucketed"
    """which samples meet in a batch: any; those of like length; every length (or depth) equally often; or by-depth:
    those of one depth, each equally often, and of one length"""
    columns: Size | None = None
    """with by-depth: fill a batch up to so many columns; `batch` is then the most samples in one"""
    even_lengths: Annotated[float, Field(ge=0, le=1)] = 0.0
    """with by-depth: at 0 a length is drawn as often as it occurs at its depth, at 1 all equally often"""
    curriculum: Curriculum | None = None
    """with by-depth: let depth or length grow as it is solved"""
    surroundings: Surroundings | None = None
    """with by-depth, for routers: let problems stand amid random tokens"""
    selection: Selection | None = None
    """with by-depth, for routers: learn from the hardest of more samples"""
    steps: TrainingSteps | None = None
    """draw the number of steps of each batch, instead of taking the model's own"""
    phases: Literal["run", "curriculum"] = "run"
    """what `sharpening`, `steps.linger` and `optimiser.hold` give shares of: the whole run, or what is left of it once
    the curriculum, if there is one, has come to its end"""
    sharpening: Sharpening | None = None
    """crisp from the beginning when left out"""
    iterations: Size = 10_000
    evaluate_every: Size = 500
    stop_when_perfect: Size | None = None
    """stop after so many evaluations in a row without an error on iid and valid"""
    milestones: tuple[Size, ...] = ()
    """iterations at which the best network so far is also tested, for tables that report it"""
    ponder: Annotated[float, Field(ge=0)] = 0.03
    """weight of the mean remainder, for models with halting"""
    thrift: Annotated[float, Field(ge=0, le=1_000)] = 0.0
    """weight of what gates let through in the loss: above 0, columns learn to leave off working"""
    likeness: Annotated[float, Field(ge=0, le=1_000)] = 0.0
    """weight of how far the column that answers is from the token of the answer: a result then looks like a token"""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    compile: bool = False

    @model_validator(mode="after")
    def _by_depth(self) -> "Recipe":
        wanted = (self.curriculum, self.columns, self.even_lengths, self.surroundings, self.selection)
        if self.sampling != "by-depth" and any(wanted):
            raise ValueError('curriculum, columns, even_lengths, surroundings and selection need sampling "by-depth"')
        if self.surroundings and not isinstance(self.model, RouterSettings):
            raise ValueError("surroundings need a router: a network that reads token by token has one place to answer")
        if self.selection and not isinstance(self.model, RouterSettings):
            raise ValueError("selection needs a router")
        if (
            self.surroundings
            and self.surroundings.across
            and isinstance(self.model, RouterSettings)
            and self.surroundings.ask == self.model.readout
        ):
            raise ValueError("nothing stands across: surroundings ask the column beside the readout")
        return self

    @model_validator(mode="after")
    def _gates_rest(self) -> "Recipe":
        linger = self.steps.linger if self.steps else None
        if linger and linger.rest and not has_gate(self.model):
            raise ValueError("only columns with a copy gate can rest")
        return self

    @model_validator(mode="after")
    def _answers_are_tokens(self) -> "Recipe":
        tied = isinstance(self.model, RouterSettings) and self.model.output == "tied"
        if self.likeness and not tied:
            raise ValueError("likeness needs a router whose output is tied: answers that are tokens")
        return self

    def open_task(self) -> Task:
        return shipped_task(self.task.name, self.task.variant)

    def before(self) -> "Recipe | None":
        """The recipe whose run comes before this one, if it begins with one."""
        return load_recipe(self.start) if self.start in expand_all() else None

    @property
    def iterations_before(self) -> int:
        """Of the runs that come before."""
        before = self.before()
        return 0 if before is None else before.iterations_in_all

    @property
    def iterations_in_all(self) -> int:
        return self.iterations_before + self.iterations

    def phases_start(self, reached: int | None) -> int:
        """The iteration from which the phases count; `reached` is when the curriculum came to its end."""
        if self.phases == "run" or self.curriculum is None:
            return 0
        return self.iterations if reached is None else reached

    def on_task(self, task: Task) -> "Recipe":
        """The same settings for a task of your own."""
        changes: dict[str, Any] = {"task": task.name, "tokens": task.tokens, "answers": task.answers}
        if isinstance(self.model, RouterSettings) and not set(task.answers) <= set(task.tokens):
            # Only answers that are tokens can be read by their embeddings.
            changes["output"] = "linear"
        model = self.model.model_copy(update=changes)
        update: dict[str, Any] = {"task": TaskSettings(name=task.name), "model": model}
        if changes.get("output") == "linear":
            update["likeness"] = 0.0
        return self.model_copy(update=update)


def has_gate(model: ModelSettings) -> bool:
    return isinstance(model, RouterSettings) and isinstance(model.update, CopyGated) and model.halting is None


def shipped_task(name: str, variant: str) -> Task:
    """A task of the package. Recipes and checkpoints name no others: a file must not choose code to run."""
    if name not in TASKS:
        raise Refusal(
            f'"{name}" is not a task of the package{nearest(name, TASKS)}; give your own with --task file.py:Name'
        )
    return get_task(name, variant)


def names() -> list[str]:
    """All shipped recipes."""
    return sorted(expand_all())


def load_recipe(name_or_file: str | Path, overrides: list[str] | None = None) -> Recipe:
    """A shipped recipe by name, or one from a JSON or TOML file, with `key=value` overrides."""
    data = expand_all().get(str(name_or_file))
    if data is None:
        path = Path(name_or_file)
        if not path.is_file():
            hint = nearest(str(name_or_file), names())
            raise Refusal(f'there is no recipe or file "{name_or_file}"{hint}; ndr recipes lists them')
        data = expand(path.stem, read_data(path))
    data = deepcopy(data)
    for override in overrides or []:
        apply_override(data, override)
    return validate(data)


def validate(data: Any) -> Recipe:
    """The recipe in this data, or a refusal that names the first wrong key and the nearest right one."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise refusal_of(error) from error


def refusal_of(error: ValidationError, *above: str) -> Refusal:
    """The first of pydantic's complaints as a sentence; `above` are the keys on the way to the part it looked at."""
    first = error.errors()[0]
    # Pydantic names the kind of a part on the way to its key; the recipe does not.
    where = [*above, *(str(part) for part in first["loc"] if part not in KINDS)]
    if first["type"] == "extra_forbidden":
        return Refusal(f'a recipe has no key "{".".join(where)}"{nearest(where[-1], siblings(where))}')
    # What a check of ours says of the recipe as a whole needs no place and no "Value error".
    return Refusal(": ".join(["recipe", *filter(None, [".".join(where)]), first["msg"].removeprefix("Value error, ")]))


def siblings(where: list[str]) -> set[str]:
    """The keys that could stand beside a wrong one."""
    kinds: list[type[Settings]] = [
        Recipe,
        TaskSettings,
        Optimiser,
        Curriculum,
        TrainingSteps,
        Linger,
        Sharpening,
        Surroundings,
        Selection,
        RouterSettings,
        RecurrentSettings,
        DNCSettings,
    ]
    if len(where) == 1:
        kinds = [Recipe]
    known = {key for kind in kinds for key in kind.model_fields}
    return known | {"heads", "hidden", "dropout", "gate_dropout", "squash", "candidate", "normalise", "directional"}


def apply_override(data: dict[str, Any], override: str) -> None:
    """Set `key.key=value` in the data; the value is read as JSON, or taken as a word, of which "none" means nothing."""
    key, equals, text = override.partition("=")
    if not equals:
        raise Refusal(f'"{override}" is not of the form key=value, such as optimiser.learning_rate=0.001')
    *path, last = key.strip().split(".")
    place = data
    for part in path:
        if place.get(part) is None:
            # A part that the recipe leaves out; validation judges its name.
            place[part] = {}
        if not isinstance(place[part], dict):
            raise Refusal(f'a recipe has no key "{key}"{nearest(part, place)}')
        place = place[part]
    value = value_of(text)
    place[last] = None if value == "none" else value


def value_of(text: str) -> Any:
    """What a word of a command line says: JSON, or itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # No JSON, a number with thousands of digits, or as many brackets: validation judges the word.
        return text


def read_data(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise ValueError("it is far too long")
        text = path.read_text()
        data: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(f"{path} cannot be read as a recipe: {error}") from error
    if not isinstance(data, dict):
        raise Refusal(f"{path} does not hold a recipe")
    return data


@cache
def expand_all() -> dict[str, dict[str, Any]]:
    """Every shipped recipe by its name task-model-scale. A row of a table lookup file serves both directions.

    A row can be `like` another: that row's settings, with changes.
    """
    found = {}
    for path in sorted(SHIPPED.glob("*.toml")):
        scale = path.stem
        file = read_data(path)
        for family, rows in file.items():
            shared = rows.pop("shared", {})
            for row in rows:
                own = with_likes(rows, row)
                for task in (f"{family}-forward", f"{family}-backward") if family == "ctl" else (family,):
                    name = f"{task}-{row}-{scale}"
                    found[name] = expand(name, merge({"task": {"name": task}}, merge(shared, for_task(own, task))))
    return found


def with_likes(rows: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """A row over the row that it is like, which may itself be like another."""
    own = rows[name]
    return merge(with_likes(rows, own["like"]), own) if "like" in own else own


def for_task(row: dict[str, Any], task: str) -> dict[str, Any]:
    """A row without the tables of the two directions, but with the settings in the table of its own."""
    directions = ("forward", "backward", "like")
    own = row.get(task.rpartition("-")[2], {})
    return merge({key: value for key, value in row.items() if key not in directions}, own)


def expand(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Fill in what the data leaves out: the name, and a model given as a preset with changes."""
    data = {"name": name, **data}
    model = data.get("model", {})
    if isinstance(model, dict) and "preset" in model:
        preset, changes = model["preset"], {key: value for key, value in model.items() if key != "preset"}
        if preset not in PRESETS:
            raise Refusal(f'there is no preset "{preset}"{nearest(str(preset), PRESETS)}')
        try:
            chosen = TaskSettings.model_validate(data.get("task", {}))
        except ValidationError as error:
            raise refusal_of(error, "task") from error
        settings = PRESETS[preset](shipped_task(chosen.name, chosen.variant))
        data["model"] = merge(settings.model_dump(mode="json"), changes)
    return data


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` over `base`, table by table; a part of another kind replaces the part, "none" takes it away."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and are_alike(key, old, value):
            merged[key] = merge(old, value)
        else:
            # TOML has no word for nothing.
            merged[key] = None if value == "none" else value
    return merged


def are_alike(key: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether two tables have the same keys: those of one kind, and optimisers of every kind."""
    return key == "optimiser" or new.get("kind", old.get("kind")) == old.get("kind")
