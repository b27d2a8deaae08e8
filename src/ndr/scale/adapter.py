"""Our source of runs in the forms that Ray Tune knows: a search algorithm, a stopper and a callback."""

from pathlib import Path
from typing import Any

from ray.tune import Callback, Stopper
from ray.tune.search import Searcher

from ndr.scale.engine import Assignment, Source, note_death

KEPT = ("iteration", "seconds", "loss", "iid", "valid", "test", "failed")


class Here:
    """A source that stays in this process: Tune pickles and copies what it is given, for a restore we never ask for."""

    def __init__(self, source: Source | None) -> None:
        self.kept = source

    def __reduce__(self) -> tuple[type["Here"], tuple[None]]:
        return Here, (None,)

    def __deepcopy__(self, memo: Any) -> "Here":
        return self

    @property
    def source(self) -> Source:
        assert self.kept is not None
        return self.kept


class Questions(Searcher):
    """Tune asks for the next trial."""

    def __init__(self, here: Here, shared: dict[str, Any]) -> None:
        super().__init__(metric="over", mode="max")
        self.here, self.shared = here, shared

    def suggest(self, trial_id: str) -> Any:
        found = self.here.source.next()
        if found is None:
            return Searcher.FINISHED
        own = {"name": found.name, "recipe": found.recipe, "seed": found.seed, "out": str(found.folder.resolve())}
        return {**self.shared, **own}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: the stopper has heard it."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the folders of the runs know."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing."""


class Ears(Stopper):
    """Tune tells what a trial reports, and asks whether to stop it."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self.over: set[str] = set()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        name = result["config"]["name"]
        row = {key: result[key] for key in KEPT if key in result}
        if trial_id in self.over:
            # Tune repeats the last report of a trial when its function returns.
            return False
        if result["over"]:
            self.over.add(trial_id)
            self.here.source.ended(name, row)
            return False
        return self.here.source.heard(name, row)

    def stop_all(self) -> bool:
        return False


class Bell(Callback):
    """Tune tells when a trial starts, and when it has been started again too often."""

    def __init__(self, here: Here) -> None:
        self.here = here

    def on_step_begin(self, iteration: int, trials: Any, **_: Any) -> None:
        self.here.source.tick()

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
        self.here.source.started(trial.config["name"])

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
        config = trial.config
        assignment = Assignment(config["name"], config["recipe"], config["seed"], Path(config["out"]))
        try:
            message = str(trial.get_pickled_error() or trial.get_error() or "")
        except (OSError, EOFError):
            message = "its message could not be kept"
        self.here.source.ended(assignment.name, {"failed": note_death(assignment, message)})
