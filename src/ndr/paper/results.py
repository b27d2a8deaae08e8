"""Results of runs: read from run folders or from `results/`, and copied from the one to the other."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ndr.errors import Refusal, complaint
from ndr.train.checkpoint import is_intact
from ndr.train.folder import difference
from ndr.train.recipe import SHIPPED, load_recipe, names, validate
from ndr.whole import read_text, read_whole, write_whole

FAILURE = "failure.json"
Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Named(BaseModel):
    name: str


class Scored(BaseModel):
    accuracy: Share


class Record(BaseModel):
    """What tables and pages take from a result, which may come from a stranger; the rest is not looked at."""

    recipe: Named
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    failed: str | None = None
    best: dict[str, Scored] = {}
    last: dict[str, Scored] = {}
    milestones: dict[int, Share] | None = None
    best_iteration: int | None = None
    iterations: int | None = None
    seconds: Amount | None = None
    processor_seconds: Amount | None = None


@dataclass(frozen=True)
class Result:
    """What came out of one run: its record, or why there is none."""

    recipe: str
    seed: int
    record: dict[str, Any]
    path: Path

    @property
    def name(self) -> str:
        return f"{self.recipe}-seed{self.seed}"

    @property
    def failure(self) -> str | None:
        reason = self.record.get("failed")
        return None if reason is None else str(reason)

    @property
    def scale(self) -> str:
        return scale_of(self.recipe)

    def accuracy(self, which: str, split: str) -> float | None:
        score = self.record.get(which, {}).get(split)
        return None if score is None else float(score["accuracy"])

    @property
    def milestone(self) -> float | None:
        """Test accuracy of the network that was best on valid by the first milestone."""
        found: dict[str, float] = self.record.get("milestones") or {}
        return found[min(found, key=int)] if found else None

    def drift(self) -> str | None:
        """Where its settings differ from the shipped recipe of the same name."""
        if self.recipe not in names():
            return "this version ships no recipe of this name"
        try:
            then = validate(self.record["recipe"])
        except Refusal as refusal:
            return str(refusal)
        now = load_recipe(self.recipe)
        return None if then == now else difference(then.model_dump(mode="json"), now.model_dump(mode="json"))


def scale_of(recipe: str) -> str:
    """`small`, `paper`, or whichever file of shipped recipes the name ends with; `other` if none."""
    last = recipe.rpartition("-")[2]
    return last if last in {path.stem for path in SHIPPED.glob("*.toml")} else "other"


def read_results(folder: Path | str) -> list[Result]:
    """Every result below a folder of runs (`*/result.json`) or of results (`*.json`, `*/*.json`), each run once.

    A run that stands in two places is taken from the folder that bears its name.
    """
    root = Path(folder)
    if not root.is_dir():
        raise Refusal(f'there is no folder "{root}"')
    found: dict[tuple[str, int], Result] = {}
    for path in candidates(root):
        result = read_result(path)
        if result is None:
            continue
        key = (result.recipe, result.seed)
        if key not in found or result.name in (path.parent.name, path.stem):
            found[key] = result
    return [found[key] for key in sorted(found)]


def candidates(root: Path) -> Iterable[Path]:
    for folder in (root, *sorted(path for path in root.iterdir() if path.is_dir())):
        if (folder / "recipe.json").is_file():
            # The folder of a run: a result outweighs a failure that came before it.
            files = (folder / "result.json", folder / FAILURE)
            yield from [path for path in files if path.is_file()][:1]
        else:
            yield from sorted(folder.glob("*-seed*.json"))


def read_result(path: Path) -> Result | None:
    """The result in a file, or None if it holds something else."""
    try:
        record = json.loads(read_text(path))
        if not isinstance(record, dict) or not ("best" in record or "failed" in record):
            return None
        if not {"recipe", "seed"} <= record.keys():
            return None
        checked = Record.model_validate(record)
        if not is_intact(record):
            raise ValueError("its checksum is another")
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(f"{path} is damaged: {complaint(error)}; remove it, or copy it again") from error
    return Result(checked.recipe.name, checked.seed, record, path)


def collect(runs: Path | str, results: Path | str) -> tuple[list[Path], dict[str, str]]:
    """Copy the result of every run of a shipped recipe to `results/<scale>/<recipe>-seed<N>.json`.

    Returns the files that are new or changed, and why other runs were left out. Runs whose settings are not (or no
    longer) those of the shipped recipe are left out: a published number must come back from `ndr train NAME`.
    """
    copied, skipped = [], {}
    for result in read_results(runs):
        difference = result.drift()
        if difference is not None:
            skipped[str(result.path.parent)] = difference
            continue
        target = Path(results) / result.scale / f"{result.name}.json"
        content = read_whole(result.path)
        if target.is_file() and read_whole(target) == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)
        copied.append(target)
    return copied, skipped
