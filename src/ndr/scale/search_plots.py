"""Pictures of a search: history, importance of settings, parallel coordinates."""

from pathlib import Path
from typing import Any

from ndr.train.curves import new_figure, save_figure

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"


def draw_search(study: Any, out: Path) -> list[Path]:
    """All that the study has enough trials for."""
    import optuna

    done = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    if not done:
        return []
    drawn = [draw_history(study, out / "history.png"), draw_parallel(done, out / "parallel.png")]
    weights = importances(study, len(done))
    if weights:
        drawn.append(draw_importance(weights, out / "importance.png"))
    return drawn


def draw_history(study: Any, path: Path) -> Path:
    """Every trial, and the best so far."""
    figure = new_figure()
    axes = figure.add_subplot()
    done = [each for each in study.get_trials(deepcopy=False) if each.state.name == "COMPLETE"]
    cut = [
        each for each in study.get_trials(deepcopy=False) if each.state.name == "PRUNED" and each.intermediate_values
    ]
    axes.scatter([each.number for each in done], [each.value for each in done], color=BLUE, label="finished", zorder=3)
    last = [each.intermediate_values[max(each.intermediate_values)] for each in cut]
    axes.scatter([each.number for each in cut], last, color=GREY, marker="x", label="stopped early")
    best: list[float] = []
    for each in done:
        best.append(max([each.value, *best[-1:]]))
    axes.step([each.number for each in done], best, where="post", color=ORANGE, label="best so far")
    axes.set(xlabel="trial", ylabel="objective", title="history of the search")
    axes.legend()
    save_figure(figure, path)
    return path


def importances(study: Any, count: int) -> dict[str, float]:
    """How much of the difference between good and other trials each setting explains (PED-ANOVA)."""
    import optuna

    if count < 2:
        return {}
    try:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found: dict[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, RuntimeError):
        # All trials are equally good, or no setting took two values.
        return {}
    return found


def draw_importance(weights: dict[str, float], path: Path) -> Path:
    figure = new_figure()
    axes = figure.add_subplot()
    ordered = sorted(weights.items(), key=lambda item: item[1])
    axes.barh([name for name, _ in ordered], [weight for _, weight in ordered], color=BLUE)
    axes.set(xlabel="importance", title="what mattered")
    save_figure(figure, path)
    return path


def draw_parallel(trials: list[Any], path: Path) -> Path:
    """A line per finished trial through its settings, each axis scaled to its own range; good trials are dark."""
    from matplotlib import colormaps

    figure = new_figure()
    figure.set_size_inches(9, 4.5)
    axes = figure.add_subplot()
    names = list(trials[0].params)
    low, high = min(each.value for each in trials), max(each.value for each in trials)
    places = {name: positions([each.params[name] for each in trials]) for name in names}
    for index in sorted(range(len(trials)), key=lambda index: trials[index].value):
        score = (trials[index].value - low) / ((high - low) or 1.0)
        heights = [*(places[name][index] for name in names), score]
        axes.plot(range(len(heights)), heights, color=colormaps["viridis_r"](score), lw=1 + score, alpha=0.8)
    labels = [f"{short(name)}\n{extent([each.params[name] for each in trials])}" for name in names]
    axes.set_xticks(range(len(names) + 1), labels=[*labels, f"objective\n{low:.3g} … {high:.3g}"], fontsize=7)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.set(title="settings of all finished trials")
    save_figure(figure, path)
    return path


def short(name: str) -> str:
    """`update.dropout` of `model.update.dropout`: the last word alone is not always unique."""
    return ".".join(name.split(".")[-2:])


def positions(values: list[Any]) -> list[float]:
    """Where values stand between the least and the greatest."""
    numbers = values if all(isinstance(value, int | float) for value in values) else ranks(values)
    low, high = min(numbers), max(numbers)
    return [(number - low) / ((high - low) or 1) for number in numbers]


def ranks(values: list[Any]) -> list[int]:
    ordered = sorted({str(value) for value in values})
    return [ordered.index(str(value)) for value in values]


def extent(values: list[Any]) -> str:
    if all(isinstance(value, int | float) for value in values):
        return f"{min(values):.3g} … {max(values):.3g}"
    return ", ".join(sorted({str(value) for value in values}))
