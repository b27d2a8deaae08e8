"""`ndr bench`."""

from collections.abc import Iterator
from pathlib import Path

from ndr.bench import report
from ndr.bench.measure import Measure


def bench(
    *,
    quick: bool = False,
    json: Path | None = None,
    plots: Path | None = None,
    page: Path | None = None,
    from_json: Path | None = None,
    router: str | None = None,
) -> None:
    """Measure speed, each figure beside its yardsticks. Run it on a quiet machine.

    Args:
        quick: small sizes only, fewer rounds: half a minute instead of some minutes.
        json: write the measures here.
        plots: draw how the time grows into this folder.
        page: write docs/performance.md, or a page like it, here.
        from_json: measure nothing; take the measures of an earlier run from here.
        router: a folder with a solved router for table lookup (otherwise a shipped one is taken).
    """
    from rich.console import Console

    console = Console(soft_wrap=True)
    measures: list[Measure] = []
    for measure in report.read_json(from_json) if from_json else run(quick, router):
        measures.append(measure)
        name, figure, ratios, note = report.cells(measure)
        console.print(f"{name:<48} {figure:>18}   {ratios.replace('**', '')}", markup=False, highlight=False)
        if note:
            console.print(f"{'':<48} {note}", style="dim", markup=False, highlight=False)
        if json and not from_json:
            # After each measure, so that an interrupted run leaves what it found.
            report.write_json(measures, json)
    if plots:
        report.draw(measures, plots)
    if page:
        report.write_page(measures, page, from_json or json or Path("benchmarks/results/latest.json"))


def run(quick: bool, router: str | None) -> Iterator[Measure]:
    """Every measure, as soon as it is taken."""
    from ndr.bench import attention, inference, scaling, surroundings, training

    rounds = 3 if quick else 5
    for size in training.SIZES[:1] if quick else training.SIZES:
        yield training.measure_training(size, rounds if size.width > 64 else 3 * rounds)
    for columns in attention.LENGTHS[:3] if quick else attention.LENGTHS:
        yield attention.measure_attention(columns, rounds)
    yield attention.measure_memory()
    if opened := inference.solved_router(router):
        for still in (False, True):
            yield inference.measure_inference(opened, 2 * rounds, still)
        yield inference.measure_predict(opened, rounds)
    for axis in ("steps",) if quick else scaling.AXES:
        yield from scaling.measure_scaling(axis, rounds)
    yield from scaling.measure_threads(rounds, training.SMALL if quick else training.PAPER)
    for name in surroundings.TASKS[:1] if quick else surroundings.TASKS:
        yield surroundings.measure_data(name, 3)
    yield surroundings.measure_import(rounds)
