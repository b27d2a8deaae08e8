"""The page of results: every table that has runs, what agrees with the paper and what does not, and every seed."""

from collections.abc import Sequence
from pathlib import Path

from ndr.paper.experiments import TABLES, open_table
from ndr.paper.render import markdown
from ndr.paper.results import Result, read_results
from ndr.paper.tables import Filled, fill
from ndr.whole import read_text

HEAD = """# Results

Generated from `results/` by `ndr reproduce --from results --page docs/results.md`; do not edit by hand.
Mean ± sample standard deviation (n − 1) over seeds; (n=2) where the number of seeds is not the paper's 5.
Generalisation numbers are test accuracies of the network that was best on the deeper validation split (the latest on
ties), iid numbers and Table 4 those at the end of training, as in the paper. **Bold**: within 0.025 (table lookup) or
0.02 of the best mean. Every run is a recipe and a seed: `ndr train NAME --seed N` gives it again.
"""


def results_page(folder: Path | str) -> str:
    """The whole page as Markdown. Of what is written by hand in the folder, `summary.md` follows the head, `notes.md`
    the tables.
    """
    results = read_results(folder)
    parts = [HEAD, *by_hand(folder, "summary.md")]
    for scale in sorted({result.scale for result in results}, key=lambda name: (name != "small", name)):
        of_scale = [result for result in results if result.scale == scale]
        filled = [each for key in TABLES if not (each := fill(open_table(key), scale, of_scale)).empty]
        parts.append(f"## Scale `{scale}`\n\n{len(of_scale)} runs.\n")
        for each in filled:
            parts += [f"### {each.table.heading}\n", markdown(each), agreement(each)]
        parts += ["### Every run\n", every_run(of_scale)]
    return "\n".join([*parts, *by_hand(folder, "notes.md")])


def by_hand(folder: Path | str, name: str) -> list[str]:
    file = Path(folder) / name
    return [read_text(file).strip() + "\n"] if file.is_file() else []


def agreement(filled: Filled) -> str:
    """Cell by cell: what is the paper's number, within its spread or 0.05, and what is not."""
    judged = [
        (row, column, cell)
        for row in filled.rows
        for column, cell in zip(filled.table.columns, row.cells, strict=True)
        if cell.agrees is not None
    ]
    differing = [each for each in judged if not each[2].agrees]
    lines = [
        f"{len(judged) - len(differing)} of {len(judged)} numbers agree with the paper "
        "(within 0.05, or within its standard deviation)."
    ]
    if differing:
        lines.append("These do not:\n")
    for row, column, cell in differing:
        place = f"{row.name} {row.label}".strip()
        heading = f"{column.group} {column.heading(filled.scale)}".strip()
        lines.append(f"- {place}, {heading}: {cell.ours}, the paper has {cell.theirs}")
    return "\n".join(lines) + "\n"


def every_run(results: Sequence[Result]) -> str:
    lines = [
        "| run | iid (end) | valid | test | best iteration | minutes | of a processor |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        if result.failure is not None:
            lines.append(f"| {result.name} | failed: {result.failure} | | | | | |")
            continue
        numbers = [result.accuracy("last", "iid"), result.accuracy("best", "valid"), result.accuracy("best", "test")]
        shown = ["" if number is None else f"{number:.4f}" for number in numbers]
        record = result.record
        iterations = f"{record.get('best_iteration', '')} of {record.get('iterations', '')}"
        times = [record.get("seconds"), record.get("processor_seconds")]
        minutes = ["" if seconds is None else f"{float(seconds) / 60:.1f}" for seconds in times]
        lines.append(f"| {' | '.join([result.name, *shown, iterations, *minutes])} |")
    return "\n".join(lines) + "\n"
