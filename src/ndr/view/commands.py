"""`ndr figure` and `ndr explore`."""

import ctypes
import gc
import importlib.util
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional, arg

from ndr.errors import Refusal, require

if TYPE_CHECKING:
    from ndr.view.studio import Studio

MOST_SAMPLES = 1_000_000
Kind = Literal["attention", "gates", "heads", "flow", "ponder", "routing"]


def figure(
    run: Annotated[Positional[str], arg(metavar="RUN_OR_NAME")],
    text: Annotated[Positional[str | None], arg(metavar="[TEXT]")] = None,
    *,
    out: Path,
    kind: Kind = "attention",
    steps: tuple[int, ...] = (),
    head: tuple[int, ...] = (),
    panels: tuple[str, ...] = (),
    total_steps: int | None = None,
    samples: int = 200,
    depths: tuple[int, ...] = (),
    seed: int = 0,
) -> None:
    """Draw what a network does to a text.

    Example: ndr figure runs/demo "101 d a b" --kind gates --steps 0 1 2 3 --out gates.pdf

    Args:
        run: a run folder, a folder written by save_pretrained, or the name of a shipped network
        text: the input; "ponder" and "routing" draw samples of the network's task instead
        out: .png, .svg or .pdf; .gif or .mp4 shows the steps one after another; "routing" also writes .json
        kind: attention: a map per step; gates: every channel of every gate; heads: maps by head; flow: what was taken
            from where; ponder: steps by length (ACT); routing: whether gates open when arguments are ready
        steps: which steps to draw, counted from 0; all when left out
        head: which head or heads (their maximum; a row each for "heads"); the maximum of all when left out
        panels: for "heads", the maps one by one as head@step or head+head@step
        total_steps: how often the layer is applied; the network's own number when left out
        samples: for "ponder" and "routing", how many samples
        depths: for "ponder" and "routing", of which depths
        seed: for "ponder" and "routing", which samples
    """
    use_one_thread()
    require("matplotlib", "viz")
    if kind in ("ponder", "routing"):
        if text is not None:
            raise Refusal(f'the kind "{kind}" draws samples of the task; leave the text out')
        summary = sampled_figure(run, kind, out, total_steps, samples, depths, seed)
    else:
        if text is None:
            raise Refusal(f'the kind "{kind}" needs a text: ndr figure {run} "TEXT" --out {out}')
        summary = traced_figure(run, text, kind, out, steps, head, panels, total_steps)
    print(f"{summary}; wrote {out}")


def traced_figure(
    run: str,
    text: str,
    kind: str,
    out: Path,
    steps: tuple[int, ...],
    head: tuple[int, ...],
    panels: tuple[str, ...],
    total_steps: int | None,
) -> str:
    from ndr.view.networks import open_router
    from ndr.view.plots import plot
    from ndr.view.size import check_trace

    network, task = open_router(run)
    truth = None if task is None else task.evaluate(text)
    columns = len(network.vocabulary.tokenize(text)) + 2
    if total_steps is None and steps:
        # A later step than the network's own last one is a wish for more steps.
        total_steps = max(max(steps) + 1, network.steps_now(None, columns)) if max(steps) < 10_000 else None
    check_trace(network, columns, network.steps_now(total_steps, columns))
    trace = network.trace(text, steps=total_steps)
    plot(trace, kind, steps=steps or None, head=head or None, panels=panels or None, out=out)
    right = "" if truth is None else " (right)" if trace.answer == truth else f" (right is {truth})"
    return f"the network says {trace.answer}{right}"


def sampled_figure(
    run: str, kind: str, out: Path, total_steps: int | None, samples: int, depths: tuple[int, ...], seed: int
) -> str:
    from ndr.view.networks import open_router
    from ndr.view.ponder import plot_ponder_times, ponder_times
    from ndr.view.routing import draw_samples, plot_routing, read_routing
    from ndr.view.size import MOST_WEIGHTS, check_trace
    from ndr.whole import PICTURES, check_target, write_whole

    if seed < 0 or samples > MOST_SAMPLES:
        raise Refusal(f"a seed is 0 or more and there are at most {MOST_SAMPLES:,} samples, not {seed} and {samples}")
    network, task = open_router(run)
    if task is None:
        raise Refusal(f'the task of "{run}" is not one of ours, so no samples can be drawn')
    check_target(out, PICTURES if kind == "ponder" else (*PICTURES, ".json"))
    texts = draw_samples(task, samples, depths or (tuple(range(1, 11)) if kind == "ponder" else (2, 3, 4, 5)), seed)
    columns = max((len(network.vocabulary.tokenize(text)) for text in texts), default=0) + 2
    # The traces of all samples are kept, so each has its share of what one may take.
    share = MOST_WEIGHTS // max(len(texts), 1)
    check_trace(network, columns, network.steps_now(total_steps, columns), share, share)
    if kind == "ponder":
        times = ponder_times(network, texts, total_steps)
        plot_ponder_times(times, out)
        return f"{len(texts)} samples of {len(times.steps)} lengths"
    report = read_routing(network, task, texts, steps=total_steps, seed=seed)
    if out.suffix.lower() == ".json":
        content = json.dumps(report.as_json(), indent=2) + "\n"
        write_whole(out, content.encode())
    else:
        plot_routing(report, out)
    return report.sentence()


def explore(
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN_OR_NAME ...]")] = (),
    *,
    port: int = 8400,
    host: str = "127.0.0.1",
    export: Path | None = None,
    text: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], arg(metavar="TEXT")] = (),
    steps: int | None = None,
) -> None:
    """Look into networks in the browser, or write the view as one HTML file.

    Example: ndr explore runs/demo --export view.html --text "101 d a b"

    Args:
        runs: run folders, folders written by save_pretrained, or names of shipped networks; all shipped ones when
            left out
        port: where to listen; 0 takes any free port
        host: on which address; the default can be reached from this machine only
        export: write this .html file, which needs no server and no network, instead of serving
        text: for --export, a text to record (may be given again)
        steps: for --export, how often the layer is applied
    """
    use_one_thread()
    require("fastapi", "web")
    require("uvicorn", "web")
    if export is not None:
        from ndr.view.page import export as write_page

        path = write_page(open_studio(runs), export, text, steps)
        print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
        return
    if text or steps is not None:
        raise Refusal("--text and --steps belong to --export; in the browser both can be typed")
    load_ahead()
    # What is imported now stays: looking for garbage in it finds nothing and takes an eighth of the start.
    gc.disable()
    from ndr.view.server import listen, make_app, open_later, serve

    listener = listen(host, port)
    opening = open_later(lambda: open_studio(runs))
    opening.add_done_callback(lambda _: collect_again())
    app = make_app(opening, hosts=(host,))
    shown = f"[{host}]" if ":" in host else host
    print(f"explorer on http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C ends it)", flush=True)
    serve(app, listener, opening)


def use_one_thread() -> None:
    """Asked before torch is imported. A trace is many small products: threads that wait for each other at every one
    make it slower, on a busy machine a hundred times.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def load_ahead() -> None:
    """Let the system load torch's libraries while Python imports the server, which it can do at the same time."""
    torch = importlib.util.find_spec("torch")
    library = Path(torch.origin).parent / "lib" / "libtorch_python.so" if torch and torch.origin else None
    if library is not None and library.exists():
        threading.Thread(target=ctypes.CDLL, args=(str(library),), daemon=True).start()


def collect_again() -> None:
    gc.freeze()
    gc.enable()


def open_studio(runs: tuple[str, ...]) -> "Studio":
    """The networks named, or all shipped ones."""
    from ndr.view.networks import shipped_names
    from ndr.view.studio import Studio, open_exhibits

    names = runs or tuple(shipped_names())
    if not names:
        raise Refusal("give at least one run folder or network: none is shipped with this installation")
    return Studio(open_exhibits(names))
