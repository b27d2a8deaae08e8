"""The page "How far does it go?": accuracy against depth of every run swept, what was trained, and what it costs."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from ndr.errors import Refusal
from ndr.models.settings import CopyGated, Geometric, RouterSettings
from ndr.paper.experiments import TIMED, WITHOUT, recipe_name
from ndr.paper.page import by_hand
from ndr.paper.reach import SOLVED, STYLES, TASKS, draw, in_short, read_reaches, seeds, summary
from ndr.paper.results import Result, read_results
from ndr.train.recipe import validate
from ndr.whole import write_whole

HEAD = """# How far does it go?

Generated from `results/depths` by `ndr reproduce --from results --far docs/how-far.md`; do not edit by hand. Each file
there is the output of `ndr eval RUN --depths … --steps auto --json`: new problems of each depth, with as many steps as
it takes until nothing changes. Networks were trained on at most 5 functions (table lookup) or depth 5, with the final
answer only; choices were made on the validation split (6-8 functions, depth 6). In brackets: the 95 % interval
(Wilson) of all problems of all seeds together, and the worst seed.
"""

TRAINED = """## What was trained

Each row is a recipe, shown by `ndr recipes NAME`, and comes back with `ndr train NAME --seed N`. Iterations and minutes
(of one processor) are its own; those of the run or shipped network that it begins with come before.
"""


def far_page(folder: Path | str, page: Path) -> None:
    """The page, with a picture of every task beside it. A file `far.md` in the folder is put after the head."""
    reaches = read_reaches(folder)
    if not reaches:
        raise Refusal(f"there are no sweeps in {Path(folder, 'depths')}; make them with ndr eval RUN --depths … --json")
    parts = [HEAD, in_short(reaches), *by_hand(folder, "far.md")]
    for task, title in TASKS.items():
        own = [each for each in reaches if each.task == task]
        whole = [each for each in own if WITHOUT not in each.model]
        if whole:
            picture = page.parent / "images" / f"how-far-{task}.png"
            draw(whole, picture, title)
            parts.append(
                f"## {title}\n\n![Accuracy against depth](images/{picture.name})\n\n{summary(whole)}\n{seeds(whole)}"
            )
        lesser = [each for each in own if WITHOUT in each.model]
        if lesser:
            beside = {(each.model.partition(WITHOUT)[0], each.seed) for each in lesser}
            same = [each for each in whole if (each.model, each.seed) in beside]
            parts.append(f"### Which ingredient buys what\n\n{summary([*same, *lesser])}\n{seeds(lesser)}")
    results = read_results(folder)
    parts += [trained(results), costs(results)]
    write_whole(page, "\n".join(part for part in parts if part).encode())


def trained(results: Sequence[Result]) -> str:
    """What the networks of both layers are and how they were trained, as means of the seeds."""
    columns = ("recipe", "begins with", "width, heads, inner", "gates, matches stretched by")
    numbers = ("iterations", "minutes", "seeds", "iid", "valid", "test")
    lines = [TRAINED, f"| {' | '.join(columns + numbers)} |", "|---" * len(columns) + "|---:" * len(numbers) + "|"]
    for task in TASKS:
        for layer in STYLES:
            name = recipe_name(task, layer, "small")
            own = [each for each in results if each.recipe == name and each.failure is None]
            if own:
                lines.append(f"| {' | '.join([f'`{name}`', *settings_of(own), *means_of(own)])} |")
    return "\n".join(lines) + "\n" if len(lines) > 3 else ""


def settings_of(runs: Sequence[Result]) -> list[str]:
    recipe = validate(runs[0].record["recipe"])
    model = recipe.model
    assert isinstance(model, RouterSettings) and isinstance(model.attention, Geometric)
    assert isinstance(model.update, CopyGated)
    gates = model.update.stretch if model.update.squash == "crisp" else 0.0
    return [
        f"`{recipe.start}`" if recipe.start else "",
        f"{model.width}, {model.attention.heads}, {model.update.hidden}",
        f"{gates:g}, {model.attention.stretch:g}",
        f"{recipe.iterations:,}",
    ]


def means_of(runs: Sequence[Result]) -> list[str]:
    minutes = [each.record["processor_seconds"] / 60 for each in runs if each.record.get("processor_seconds")]
    shown = [f"{mean(minutes):.0f}" if minutes else "", str(len(runs))]
    for split in ("iid", "valid", "test"):
        found = [number for each in runs if (number := each.accuracy("best", split)) is not None]
        shown.append(f"{mean(found):.4f}" if found else "")
    return shown


def costs(results: Sequence[Result]) -> str:
    """When runs that look at the test split on their way (recipes called task-model-timed) first solve it."""
    firsts: dict[tuple[str, str], list[int | None]] = defaultdict(list)
    courses = []
    for result in results:
        named = re.fullmatch(rf"({'|'.join(TASKS)})-(.+){TIMED}-\w+", result.recipe)
        way = sorted((int(at), right) for at, right in (result.record.get("milestones") or {}).items())
        if named is None or not way:
            continue
        firsts[named[1], named[2]].append(next((at for at, right in way if right >= SOLVED), None))
        course = ", ".join(f"{at:,}: {right:.3f}" for at, right in way)
        courses.append(f"- {named[1]}, {named[2]}, seed {result.seed}: {course}")
    if not firsts:
        return ""
    lines = [
        f"## What it costs\n\nIterations until {SOLVED} of the test split are right, looked at only for this:\n",
        "| task | layer | seeds | mean | each seed |",
        "|---|---|---:|---:|---|",
    ]
    for (task, layer), found in firsts.items():
        solved = [at for at in found if at is not None]
        average = f"{mean(solved):,.0f}" if len(solved) == len(found) else ""
        each = ", ".join("never" if at is None else f"{at:,}" for at in found)
        lines.append(f"| {task} | {layer} | {len(found)} | {average} | {each} |")
    lines += ["\n<details><summary>Every seed: accuracy on the way</summary>\n", *courses, "\n</details>\n"]
    return "\n".join(lines)
