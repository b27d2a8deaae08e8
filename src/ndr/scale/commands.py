"""`ndr grid`, `search` and `reproduce`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from ndr.errors import Refusal

if TYPE_CHECKING:
    from ndr.scale.engine import Engine
    from ndr.scale.jobs import Job

Many = UseAppendAction[tuple[str, ...]]
Format = Literal["terminal", "markdown", "latex", "html"]

# What the help says of arguments that one command has.
GRID = "a file of runs (docs/scale.md), a table of the paper (table1 to table6), or a recipe."
SEARCH = "what to search (docs/scale.md), or a shipped one: table10 has the ranges of the paper."
TABLE = "table1 to table6; with --from, all when left out."
OBJECTIVE = "weight of an accuracy, such as valid=1 (alone when left out) or iid=0.5; can be given several times."
FROM = "run nothing; print the tables from the results in this folder."
COLLECT = "afterwards copy the results of all finished runs to this folder."

# The options that several of the commands have; each says here what it means.
Scale = Annotated[str, arg(help="of a table's recipes: small (fits two CPU cores) or paper (its own, for GPUs).")]
Rows = Annotated[tuple[str, ...], arg(help="only these models of a table.")]
Seeds = Annotated[int | None, arg(help="how many (0, 1, ...); the paper's 5, or those of a file, when left out.")]
Changes = Annotated[Many, arg(help="change a setting of all runs, as key=value; can be given several times.")]
Out = Annotated[Path, arg(help="the folder for the folders of the runs.")]
Data = Annotated[Path | None, arg(help="where splits are kept; NDR_DATA or the user's cache when left out.")]
Workers = Annotated[int | None, arg(help="runs at the same time; one for each core when left out.")]
Threads = Annotated[int | None, arg(help="CPU threads of each run.")]
Gpus = Annotated[float | None, arg(help="GPUs of each run, or a part of one such as 0.25.")]
Address = Annotated[str | None, arg(help="a running Ray cluster; this machine when left out.")]
Retry = Annotated[
    Many, arg(help='try this failed run again, alone ("all": every failed one); can be given several times.')
]


def grid(
    what: Positional[Annotated[tuple[str, ...], arg(metavar="FILE|TABLE|RECIPE ...", help=GRID)]],
    /,
    *,
    scale: Scale = "small",
    rows: Rows = (),
    seeds: Seeds = None,
    set: Changes = (),
    out: Out = Path("runs"),
    data: Data = None,
    workers: Workers = None,
    threads: Threads = None,
    gpus: Gpus = None,
    address: Address = None,
    retry: Retry = (),
    dry_run: Annotated[bool, arg(help="only list the runs.")] = False,
) -> None:
    """Make many runs side by side; run the same command again to continue them.

    Finished runs are never run again, a run that fails is reported with its reason and does not stop the others.

    Examples: ndr grid table1 --rows ndr lstm --seeds 2 --workers 2
    ndr grid mine.toml --out runs/mine --address ray://head:10001
    ndr grid mine.toml --out runs/mine --retry narrow-seed3
    """
    from ndr.scale.engine import Engine
    from ndr.scale.jobs import read_jobs

    jobs = read_jobs(what, scale, rows, seeds, set)
    if not jobs:
        raise Refusal(f'"{" ".join(what)}" holds no runs at scale "{scale}"')
    if dry_run:
        for job in jobs:
            print(f"{job.name}: {job.reason(out) or job.status(out)}")
        return
    finish(jobs, out, Engine(workers, threads, gpus, address, data), retry)


def finish(jobs: "Sequence[Job]", out: Path, engine: "Engine", retry: Sequence[str]) -> None:
    """Run the jobs and say how it went; the exit code is 1 when some failed."""
    from ndr.scale.grid import run_grid

    failed = run_grid(jobs, out, engine, retry=retry)
    console = Console()
    finished = sum(job.status(out) == "finished" for job in jobs)
    console.print(f"{finished} of {len(jobs)} runs finished; kept in {out}", soft_wrap=True)
    for job in failed:
        console.print(f"{job.name}: {job.reason(out)}", style="red", highlight=False, markup=False, soft_wrap=True)
    if failed:
        # What can be tried again comes first: its reason may say what to do before.
        first = min(failed, key=lambda job: job.problem is not None)
        hint = "" if first.problem else f". Then try it again with --retry {first.name}, or all with --retry all"
        raise Refusal(f"{len(failed)} of {len(jobs)} runs failed; {first.name}: {first.reason(out)}{hint}")


def search(
    file: Positional[Annotated[str, arg(metavar="FILE|NAME", help=SEARCH)]],
    /,
    *,
    recipe: Annotated[str | None, arg(help="where to start, instead of the file's.")] = None,
    set: Changes = (),
    objective: Annotated[Many, arg(help=OBJECTIVE)] = (),
    runs: Annotated[int | None, arg(help="budget in runs.")] = None,
    hours: Annotated[float | None, arg(help="budget in hours of this command and those it continues.")] = None,
    seed: Annotated[int | None, arg(help="of all runs, and of the search.")] = None,
    out: Annotated[Path | None, arg(help="the folder of the search; searches/NAME when left out.")] = None,
    data: Data = None,
    workers: Workers = None,
    threads: Threads = None,
    gpus: Gpus = None,
    address: Address = None,
) -> None:
    """Search for good settings with Bayesian optimisation; run the same command again to continue.

    Hopeless runs are stopped early. Ends with the best recipe (best.json, which ndr train takes) and pictures.

    Examples: ndr search table10 --recipe ctl-forward-ndr-small --runs 30 --out searches/ndr
    ndr search mine.toml --hours 8 --objective valid=0.5 --objective iid=0.5
    """
    from ndr.scale.engine import Engine
    from ndr.scale.search import run_search, write_best
    from ndr.scale.search_plots import draw_search
    from ndr.scale.space import read_search

    given = {"recipe": recipe, "runs": runs, "hours": hours, "seed": seed}
    changes: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    if set:
        changes["set"] = dict(pair(each) for each in set)
    if objective:
        changes["objective"] = dict(pair(each) for each in objective)
    wanted = read_search(file, changes)
    if wanted.runs is None and wanted.hours is None:
        raise Refusal("a search needs a budget: --runs 50 or --hours 8")
    folder = out or Path("searches") / Path(file).stem
    study = run_search(wanted, folder, Engine(workers, threads, gpus, address, data))
    best = write_best(wanted, study, folder)
    pictures = draw_search(study, folder)
    console = Console()
    console.print(f"best of {len(study.get_trials(deepcopy=False))} trials: {study.best_value:.4f}, with")
    for key, value in study.best_params.items():
        console.print(f"  {key} = {value}", highlight=False)
    console.print("pictures: " + ", ".join(str(path) for path in pictures), soft_wrap=True)
    console.print(f"train it: ndr train {folder / 'best.json'} --seed 1    ({best.name})", soft_wrap=True)


def pair(text: str) -> tuple[str, object]:
    from ndr.train.recipe import value_of

    key, equals, value = text.partition("=")
    if not equals:
        raise Refusal(f'"{text}" is not of the form key=value')
    return key, value_of(value)


def reproduce(
    tables: Positional[Annotated[tuple[str, ...], arg(metavar="TABLE ...", help=TABLE)]] = (),
    /,
    *,
    scale: Scale = "small",
    rows: Rows = (),
    seeds: Seeds = None,
    out: Out = Path("runs"),
    data: Data = None,
    workers: Workers = None,
    threads: Threads = None,
    gpus: Gpus = None,
    address: Address = None,
    retry: Retry = (),
    dry_run: Annotated[bool, arg(help="only say which runs, and what they will cost.")] = False,
    format: Annotated[Format, arg(help="terminal, markdown, latex or html.")] = "terminal",
    from_: Annotated[Path | None, arg(name="from", help=FROM)] = None,
    page: Annotated[Path | None, arg(help="with --from, also write the page of all results to this file.")] = None,
    far: Annotated[Path | None, arg(help="with --from, also write the page of depth sweeps to this file.")] = None,
    collect: Annotated[Path | None, arg(help=COLLECT)] = None,
) -> None:
    """Make the runs of the paper's tables, or continue them, and print the tables with the paper's numbers beside ours.

    What the runs will cost is said before they start. Stopped, the same command goes on.

    Examples: ndr reproduce table1 --rows ndr lstm --seeds 2
    ndr reproduce table2 table3 --scale paper --dry-run
    ndr reproduce table1 --from results --format latex
    """
    from ndr.paper import TABLES, far_page, fill, open_table, read_results, render, results_page
    from ndr.scale.engine import Engine
    from ndr.train.checkpoint import write_whole

    keys = tables or (TABLES if from_ is not None else ())
    if not keys:
        raise Refusal(f"which table? ndr reproduce {TABLES[0]}; there are {', '.join(TABLES)}")
    chosen = [open_table(key) for key in keys]
    failed: list[str] = []
    if from_ is None:
        engine = Engine(workers, threads, gpus, address, data)
        failed = make_runs(keys, scale, rows, seeds, out, engine, retry, dry_run)
        if dry_run:
            return
    results = read_results(from_ or out)
    for table in chosen:
        filled = fill(table, scale, results, models=rows, seeds=seeds)
        if tables or not filled.empty:
            print(render(filled, format))
    if from_ is None and "table6" in keys:
        draw_ponder(scale, out, data)
    if page is not None:
        write_whole(page, results_page(from_ or out).encode())
    if far is not None:
        far_page(from_ or out, far)
    if collect is not None:
        copy_results(out, collect)
    if failed:
        raise SystemExit(1)


def make_runs(
    keys: tuple[str, ...],
    scale: str,
    rows: tuple[str, ...],
    seeds: int | None,
    out: Path,
    engine: "Engine",
    retry: Sequence[str],
    dry_run: bool,
) -> list[str]:
    """Say what the tables cost, then make their runs; the names of those that failed."""
    from ndr.paper import plan
    from ndr.scale.cost_report import report_cost
    from ndr.scale.grid import run_grid
    from ndr.scale.jobs import read_jobs

    console = Console(stderr=not dry_run)
    lacking = plan(keys, scale, rows, seeds).lacking
    if lacking:
        names = ", ".join(lacking)
        console.print(f'scale "{scale}" has no recipe for {names}: left out', style="yellow", soft_wrap=True)
    jobs = read_jobs(keys, scale, rows, seeds)
    if not jobs:
        raise Refusal(f'there is no run to make at scale "{scale}"; ndr recipes lists what there is')
    report_cost(jobs, out, engine, console)
    return [] if dry_run else [job.name for job in run_grid(jobs, out, engine, retry=retry)]


def draw_ponder(scale: str, out: Path, data: Path | None) -> None:
    """The figure beside Table 6, from the first seed of the network the paper shows."""
    from ndr.data import open_split
    from ndr.models import NeuralDataRouter
    from ndr.train import open_network
    from ndr.view.ponder import plot_ponder_times, ponder_times

    for run in sorted(out.glob(f"ctl-forward-rel-act-a-{scale}-seed*/best")):
        opened = open_network(run.parent)
        assert isinstance(opened.network, NeuralDataRouter)
        splits = [
            open_split(opened.task, name, seed=opened.data_seed, folder=data) for name in ("iid", "valid", "test")
        ]
        texts = [split.text(index) for split in splits for index in range(len(split))]
        picture = run.parent / "ponder.png"
        plot_ponder_times(ponder_times(opened.network, texts), picture)
        Console(stderr=True).print(f"ponder times: {picture}", soft_wrap=True)
        return


def copy_results(out: Path, folder: Path) -> None:
    from ndr.paper import collect

    copied, skipped = collect(out, folder)
    console = Console(stderr=True)
    console.print(f"{len(copied)} results copied to {folder}")
    for run, reason in skipped.items():
        console.print(f"left out: {run}: {reason}", highlight=False, markup=False, soft_wrap=True)
