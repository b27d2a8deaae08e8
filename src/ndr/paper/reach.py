"""How far networks reach: sweeps of accuracy against depth, as `ndr eval --depths --json` prints them."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated

from pydantic import Field, TypeAdapter

from ndr.errors import Refusal, complaint
from ndr.paper.results import Scored
from ndr.train.curves import new_figure, save_figure
from ndr.train.sweep import wilson
from ndr.whole import read_text

TASKS = {
    "ctl-forward": "Table lookup, forward (functions)",
    "ctl-backward": "Table lookup, backward (functions)",
    "arithmetic": "Simple arithmetic (depth)",
    "listops": "ListOps (dependency depth)",
}
SOLVED = 0.98
STYLES = {"crisp": ("#0072B2", "-"), "ndr": ("#D55E00", "--")}
OTHERS = (":", "-.")

Positive = Annotated[int, Field(ge=1)]


class Row(Scored):
    """One depth of a sweep."""

    count: Positive
    steps: Positive


SWEEP = TypeAdapter(Annotated[dict[Positive, Row], Field(min_length=1)])


@dataclass(frozen=True)
class Reach:
    """One network's accuracy, number of problems and steps at each depth."""

    task: str
    model: str
    seed: int
    depths: dict[int, tuple[float, int, int]]


def read_reaches(folder: Path | str) -> list[Reach]:
    """Every sweep in `folder`/depths, by task, model and seed. Files are called task-model-scale-seedN.json."""
    found = []
    for path in sorted(Path(folder, "depths").glob("*.json")):
        named = re.fullmatch(rf"({'|'.join(TASKS)})-(.+)-(?:small|paper)-seed(\d+)", path.stem)
        if named is None:
            raise Refusal(f"{path} is not called task-model-scale-seedN.json")
        try:
            rows = SWEEP.validate_json(read_text(path))
        except (OSError, ValueError) as error:
            raise Refusal(f"{path} is not the output of ndr eval --depths --json: {complaint(error)}") from error
        depths = {depth: (row.accuracy, row.count, row.steps) for depth, row in sorted(rows.items())}
        found.append(Reach(named[1], named[2], int(named[3]), depths))
    return sorted(found, key=lambda each: (list(TASKS).index(each.task), each.model, each.seed))


def in_short(reaches: Sequence[Reach]) -> str:
    """How deep each layer is right, for each task."""
    lines = [
        f"Right in at least {SOLVED} of the problems, mean of the seeds, up to and including:\n",
        "| task | " + " | ".join(STYLES) + " |",
        "|---" * (len(STYLES) + 1) + "|",
    ]
    for task, title in TASKS.items():
        groups = by_model([each for each in reaches if each.task == task])
        if any(layer in groups for layer in STYLES):
            lines.append(f"| {title} | " + " | ".join(solved_to(groups.get(layer, [])) for layer in STYLES) + " |")
    return "\n".join(lines) + "\n"


def solved_to(group: Sequence[Reach]) -> str:
    """The last depth before the first that is not solved, and how right both are."""
    last = ""
    for depth in sorted({depth for each in group for depth in each.depths}):
        accuracy = mean(each.depths[depth][0] for each in group if depth in each.depths)
        if accuracy < SOLVED:
            return f"{last or 'none'}; {accuracy:.4f} at {depth}"
        last = f"**{depth}** ({accuracy:.4f})"
    return f"{last}, the deepest tried" if last else ""


def by_model(reaches: Sequence[Reach]) -> dict[str, list[Reach]]:
    grouped = defaultdict(list)
    for each in reaches:
        grouped[each.model].append(each)
    return dict(grouped)


def summary(reaches: Sequence[Reach]) -> str:
    depths = sorted({depth for each in reaches for depth in each.depths})
    lines = ["| layer | seeds | " + " | ".join(map(str, depths)) + " |", "|---|---:" + "|---:" * len(depths) + "|"]
    for model, group in by_model(reaches).items():
        cells = [pooled([each.depths[depth] for each in group if depth in each.depths], len(group)) for depth in depths]
        lines.append(f"| {model} | {len(group)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def pooled(rows: Sequence[tuple[float, int, int]], seeds: int) -> str:
    """The mean over seeds, the interval of all problems together, the worst seed, and whether some were not swept."""
    if not rows:
        return ""
    right, count = round(sum(row[0] * row[1] for row in rows)), sum(row[1] for row in rows)
    low, high = wilson(right, count)
    worst = "" if len(rows) == 1 else f"; worst {min(row[0] for row in rows):.4f}"
    some = "" if len(rows) == seeds else f" ({len(rows)} of {seeds} seeds)"
    return f"**{mean(row[0] for row in rows):.4f}** [{low:.4f}, {high:.4f}]{worst}{some}"


def seeds(reaches: Sequence[Reach]) -> str:
    """Every seed: accuracy (problems; most steps)."""
    lines = ["<details><summary>Every seed: accuracy (problems, most steps)</summary>\n"]
    for each in reaches:
        cells = ", ".join(f"{d}: {a:.4f} ({count}, {steps})" for d, (a, count, steps) in each.depths.items())
        lines.append(f"- {each.model}, seed {each.seed}: {cells}")
    return "\n".join([*lines, "\n</details>\n"])


def draw(reaches: Sequence[Reach], path: Path, title: str) -> None:
    figure = new_figure()
    axes = figure.add_subplot()
    others: Counter[str] = Counter()
    for model, group in by_model(reaches).items():
        layer = model.partition("-")[0]
        colour, line = STYLES.get(layer, ("#009E73", ":"))
        if model != layer:
            # Another recipe of the same layer has its colour.
            line = OTHERS[others[layer] % len(OTHERS)]
            others[layer] += 1
        for place, each in enumerate(group):
            accuracy = [right for right, _, _ in each.depths.values()]
            ends = [wilson(round(right * count), count) for right, count, _ in each.depths.values()]
            axes.errorbar(
                list(each.depths),
                accuracy,
                [
                    [right - low for right, (low, _) in zip(accuracy, ends, strict=True)],
                    [high - right for right, (_, high) in zip(accuracy, ends, strict=True)],
                ],
                color=colour,
                ls=line,
                marker=".",
                capsize=2,
                alpha=0.7,
                label=f"{model} ({len(group)} seed{'' if len(group) == 1 else 's'})" if place == 0 else None,
            )
    depths = sorted({depth for each in reaches for depth in each.depths})
    axes.set(xscale="log", xlabel=title.rpartition("(")[2].rstrip(")"), ylabel="accuracy", ylim=(0, 1.03), title=title)
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.set_xticks([], minor=True)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", columnspacing=1.2, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
