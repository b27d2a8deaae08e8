"""Bayesian search: Optuna proposes settings and stops hopeless runs, Ray Tune makes the runs.

The study (`study.db`, SQLite) is the only memory. Its trial N is the run in folder `trial-000N`; a trial that was cut
off is continued from its checkpoint.
"""

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ndr.errors import Refusal, require
from ndr.scale.board import Board
from ndr.scale.engine import Assignment, Engine
from ndr.scale.space import SearchFile
from ndr.train.checkpoint import write_json
from ndr.train.folder import Holding
from ndr.train.recipe import Recipe, load_recipe
from ndr.whole import read_text

# Asynchronous successive halving: of the runs that reach a quarter of their evaluations the better half goes on, and so
# at half. Not earlier: on these tasks the deeper split stays at chance for long.
FACTOR, RUNGS = 2, 2


def run_search(search: SearchFile, out: Path, engine: Engine) -> Any:
    """Search until the budget is spent, or go on with a search; returns the study."""
    optuna = require("optuna", "search")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    out.mkdir(parents=True, exist_ok=True)
    with Holding(out), refusing_damage(out):
        study = open_study(search, out)
        with Board(engine.width) as board:
            source = StudySource(search, study, out, board)
            if source.has_more():
                engine.run(source, out)
    return study


@contextmanager
def refusing_damage(out: Path) -> Iterator[None]:
    """What is wrong with the study, in a sentence."""
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (OptunaError, SQLAlchemyError) as error:
        study, reason = out / "study.db", str(error.__cause__ or error).partition("\n")[0]
        raise Refusal(
            f"{study} cannot be used ({reason}); make room or mend the rights, "
            f"or remove {study} if it is damaged: the search then begins again"
        ) from error


def open_study(search: SearchFile, out: Path) -> Any:
    """The study in this folder, new or as it was left; another search is not mixed into it."""
    import optuna

    base = load_recipe(search.recipe, search.overrides({}))
    study = optuna.create_study(
        study_name="search",
        storage=f"sqlite:///{(out / 'study.db').resolve()}",
        direction="maximize",
        pruner=optuna.pruners.SuccessiveHalvingPruner(
            min_resource=max(1, evaluation(base, base.iterations) // FACTOR**RUNGS), reduction_factor=FACTOR
        ),
        load_if_exists=True,
    )
    # A search that goes on must not draw the same numbers again.
    made = len(study.get_trials(deepcopy=False))
    study.sampler = optuna.samplers.TPESampler(seed=search.seed + 1_000_003 * made, constant_liar=True)
    wanted = search.model_dump(mode="json", exclude={"runs", "hours"})
    found = study.user_attrs.get("search")
    if found is not None and found != wanted:
        raise Refusal(f"{out} holds another search; choose another --out, or remove it")
    study.set_user_attr("search", wanted)
    return study


class StudySource:
    """Trials of a study: first those that were cut off, then new ones until the budget is spent."""

    def __init__(self, search: SearchFile, study: Any, out: Path, board: Board) -> None:
        import optuna

        self.search, self.study, self.out, self.board = search, study, out, board
        self.state = optuna.trial.TrialState
        cut_off = study.get_trials(deepcopy=False, states=[self.state.RUNNING])
        self.cut_off = deque(optuna.trial.Trial(study, each._trial_id) for each in cut_off)
        self.trials: dict[str, tuple[Any, Recipe]] = {}
        self.began = time.monotonic()
        self.before = float(study.user_attrs.get("seconds", 0.0))

    @property
    def seconds(self) -> float:
        """Spent on the search, over all commands."""
        return self.before + time.monotonic() - self.began

    def out_of_time(self) -> bool:
        return self.search.hours is not None and self.seconds > 3600 * self.search.hours

    def has_more(self) -> bool:
        if self.out_of_time():
            return False
        made = len(self.study.get_trials(deepcopy=False))
        return bool(self.cut_off) or self.search.runs is None or made < self.search.runs

    def next(self) -> Assignment | None:
        while self.has_more():
            trial = self.cut_off.popleft() if self.cut_off else self.study.ask()
            chosen = {key: each.suggest(trial, key) for key, each in self.search.space.items()}
            name = f"trial-{trial.number:04}"
            try:
                recipe = named_recipe(self.search, chosen, name)
            except Refusal as refusal:
                self.board.add(name, "failed", 0, str(refusal))
                self.fail(trial, str(refusal))
                continue
            self.trials[name] = (trial, recipe)
            self.board.add(name, "waiting", recipe.iterations)
            return Assignment(name, recipe.model_dump(mode="json"), self.search.seed, self.out / name)
        return None

    def started(self, name: str) -> None:
        self.board.started(name)

    def heard(self, name: str, row: dict[str, Any]) -> bool:
        self.board.heard(name, row)
        trial, recipe = self.trials[name]
        trial.report(self.search.score(row), evaluation(recipe, row["iteration"]))
        late = self.out_of_time()
        if late or trial.should_prune():
            self.study.tell(trial.number, state=self.state.PRUNED)
            self.board.stopped(name, "the time is spent" if late else "hopeless beside the others")
            self.remember_time()
            return True
        return False

    def ended(self, name: str, row: dict[str, Any]) -> None:
        self.board.ended(name, row)
        trial, _ = self.trials[name]
        if "failed" in row:
            self.fail(trial, row["failed"])
            return
        curve = read_curve(self.out / name)
        self.study.tell(trial.number, max(self.search.score(each) for each in curve))
        self.remember_time()

    def fail(self, trial: Any, reason: str) -> None:
        trial.set_user_attr("failed", reason)
        self.study.tell(trial.number, state=self.state.FAIL)
        self.remember_time()

    def remember_time(self) -> None:
        self.study.set_user_attr("seconds", self.seconds)

    def tick(self) -> None:
        self.board.draw()


def named_recipe(search: SearchFile, chosen: dict[str, Any], name: str) -> Recipe:
    recipe = load_recipe(search.recipe, search.overrides(chosen))
    return recipe.model_copy(update={"name": f"{recipe.name}-{name}"})


def read_curve(folder: Path) -> list[dict[str, Any]]:
    file = folder / "metrics.jsonl"
    try:
        return [json.loads(line) for line in read_text(file).splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(
            f"{file} is damaged ({error}); remove {folder} and the same command makes the run again"
        ) from error


def evaluation(recipe: Recipe, iteration: int) -> int:
    """Which evaluation of a run this is, from 1."""
    return -(-iteration // recipe.evaluate_every)


def write_best(search: SearchFile, study: Any, out: Path) -> Recipe:
    """The best recipe as a file that `ndr train` takes."""
    import optuna

    done = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    if not done:
        raise Refusal(f"no run of the search has finished; its trials are in {out}")
    best = study.best_trial
    recipe = named_recipe(search, best.params, "best")
    write_json(out / "best.json", recipe.model_dump(mode="json"))
    return recipe
