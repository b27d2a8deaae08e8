"""A search as data: which settings vary in which ranges, what is to become large, and when to stop."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from ndr.errors import Refusal, complaint, nearest
from ndr.models.settings import Settings
from ndr.train.recipe import load_recipe, read_data

SHIPPED = Path(__file__).parent / "searches"
Positive = Annotated[float, Field(gt=0)]
# Far beyond every setting, and far from where differences and products of floats overflow.
MOST = 1e12
Bound = Annotated[float, Field(ge=-MOST, le=MOST)]


class Range(Settings):
    """One setting: from low to high (evenly, by logarithm, or in whole steps), or one of a few choices."""

    low: Bound | None = None
    high: Bound | None = None
    log: bool = False
    step: Annotated[int, Field(ge=1)] | None = None
    choices: list[float | int | str | bool] | None = None
    times: str | None = None
    """multiply by this other setting"""

    @model_validator(mode="after")
    def _one_or_the_other(self) -> "Range":
        bounded = self.low is not None and self.high is not None
        if bounded == (self.choices is not None):
            raise ValueError("give low and high, or choices")
        if bounded and not (self.low or 0.0) < (self.high or 0.0):
            raise ValueError("low must be less than high")
        if bounded and self.log and (self.low or 0.0) <= 0:
            raise ValueError("low must be more than 0 where log is true")
        if self.choices == []:
            raise ValueError("choices must not be empty")
        return self

    def suggest(self, trial: Any, name: str) -> Any:
        """What an Optuna trial takes from this range."""
        if self.choices is not None:
            return trial.suggest_categorical(name, self.choices)
        if self.step is not None:
            return trial.suggest_int(name, int(self.low or 0), int(self.high or 0), step=self.step)
        return trial.suggest_float(name, self.low, self.high, log=self.log)


class SearchFile(Settings):
    """A file that `ndr search` takes."""

    recipe: str
    seed: int = 0
    set: dict[str, Any] = Field(default_factory=dict)
    """settings of all runs"""
    objective: dict[Literal["valid", "iid"], Positive] = Field(default={"valid": 1.0})
    """weights of the accuracies whose sum is to become large"""
    runs: Annotated[int, Field(ge=1)] | None = None
    hours: Positive | None = None
    """the budget; whichever ends first"""
    space: dict[str, Range]

    def overrides(self, chosen: dict[str, Any]) -> list[str]:
        """A choice as changes of the recipe."""
        values = dict(chosen)
        for key, each in self.space.items():
            if each.times is not None and key in chosen:
                values[key] = multiplied(key, chosen[key], each.times, self.value_of(each.times, chosen))
        return [f"{key}={json.dumps(value)}" for key, value in {**self.set, **values}.items()]

    def value_of(self, key: str, chosen: dict[str, Any]) -> Any:
        if key in chosen:
            return chosen[key]
        data: Any = load_recipe(self.recipe, [f"{name}={json.dumps(value)}" for name, value in self.set.items()])
        for part in key.split("."):
            data = getattr(data, part, None)
        if data is None:
            raise Refusal(f'{self.recipe} has no setting "{key}" to multiply by')
        return data

    def score(self, row: dict[str, Any]) -> float:
        """The objective of one evaluation, between 0 and 1."""
        return float(
            sum(weight * row[split] for split, weight in self.objective.items()) / sum(self.objective.values())
        )


def multiplied(key: str, value: Any, by: str, factor: Any) -> int:
    for name, number in ((key, value), (by, factor)):
        if not isinstance(number, int | float) or isinstance(number, bool) or not abs(number) <= MOST:
            raise Refusal(f'"{name}" is {number!r}, which cannot be multiplied; "times" is for numbers up to {MOST:g}')
    return int(value * factor)


def read_search(name_or_file: str, changes: dict[str, Any]) -> SearchFile:
    """A shipped search by name, or one from a file, with what the command line changes."""
    shipped = SHIPPED / f"{name_or_file}.toml"
    path = shipped if shipped.is_file() else Path(name_or_file)
    if not path.is_file():
        known = sorted(each.stem for each in SHIPPED.glob("*.toml"))
        raise Refusal(
            f'there is no search or file "{name_or_file}"{nearest(name_or_file, known)}; shipped: {", ".join(known)}'
        )
    try:
        found = SearchFile.model_validate({**read_data(path), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        known = [*SearchFile.model_fields, *Range.model_fields]
        hint = nearest(str(first["loc"][-1]), known) if "extra" in first["type"] else ""
        raise Refusal(f"{path}: {complaint(error)}{hint}") from error
    for each in found.space.values():
        if each.times is not None and each.times not in found.space:
            found.value_of(each.times, {})
    return found
