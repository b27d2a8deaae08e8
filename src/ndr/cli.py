"""The command `ndr`: finds the room of a command, imports only that room, and turns refusals into one sentence.

Every command is a plain function whose typed signature is its command line (tyro) and whose docstring is its help.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ndr import __version__
from ndr.errors import Refusal, nearest, out_of_memory

# name: (module, functions by subcommand or one function, what it does)
COMMANDS: dict[str, tuple[str, str | tuple[str, ...], str]] = {
    "demo": ("ndr.demo", "demo", "train a router here and now, and show what it does"),
    "recipes": ("ndr.train.commands", "recipes", "list the shipped recipes, or show one"),
    "train": ("ndr.train.commands", "train", "train one network, or continue it"),
    "eval": ("ndr.train.commands", "evaluate", "accuracy on a split, or against depth"),
    "predict": ("ndr.train.commands", "predict", "answer texts, or the lines of the input"),
    "figure": ("ndr.view.commands", "figure", "draw what a network does with a text, step by step"),
    "explore": ("ndr.view.commands", "explore", "watch it in the browser"),
    "reproduce": ("ndr.scale.commands", "reproduce", "a table of the paper: plan, run or resume, print"),
    "grid": ("ndr.scale.commands", "grid", "many runs at once, here or on a cluster"),
    "search": ("ndr.scale.commands", "search", "look for better settings"),
    "data": ("ndr.data.commands", ("make", "show", "stats", "export"), "make, look at and export the splits of a task"),
    "bench": ("ndr.bench.commands", "bench", "measure speed against the machine's limit"),
}

EXAMPLES = """examples:
  ndr demo
  ndr train ctl-forward-ndr-small --seed 1
  ndr predict runs/ctl-forward-ndr-small-seed1 "101 d a b"
  ndr figure runs/ctl-forward-ndr-small-seed1 "101 d a b" --kind gates --out gates.png
  ndr reproduce table1 --rows ndr lstm --seeds 2
  ndr data show listops --split test
"""


def usage() -> str:
    width = max(len(name) for name in COMMANDS)
    rows = "\n".join(f"  {name:<{width}}  {what}" for name, (_, _, what) in COMMANDS.items())
    return f"usage: ndr COMMAND [options]   (ndr COMMAND --help says more)\n\n{rows}\n\n{EXAMPLES}"


def main(arguments: list[str] | None = None) -> None:
    """Run one command; exit 0 when done, 1 when part of the input was bad, 2 when nothing could be done."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        raise SystemExit(0 if words else 2)
    if words[0] in ("-V", "--version"):
        print(f"ndr {__version__}")
        return
    try:
        run(words[0], words[1:])
        # Here, because what fails to be printed when Python ends becomes a traceback.
        sys.stdout.flush()
    except Refusal as refusal:
        say(str(refusal))
        raise SystemExit(2) from None
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is left to say, and Python must not try again at exit.
        sys.stderr.close()
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        say("interrupted")
        raise SystemExit(130) from None
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        if not (sentence := trouble(error)):
            raise
        say(sentence)
        raise SystemExit(2) from None


def say(sentence: str) -> None:
    """On stderr, whatever it holds: half a surrogate pair can be typed but not be printed."""
    print(f"ndr: {sentence}".encode(errors="backslashreplace").decode(), file=sys.stderr)


def trouble(error: BaseException) -> str | None:
    """What to do when the machine, not the program, is at fault; None for everything else."""
    if out_of_memory(error):
        return "there is not enough memory; use a smaller batch, model or text, or end other programs, and try again"
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{place}; mend that and run the same command again"
    return None


def run(name: str, words: list[str]) -> None:
    if name not in COMMANDS:
        raise Refusal(f'there is no command "{name}"{nearest(name, COMMANDS)}; ndr --help lists them')
    import tyro

    module, functions, _ = COMMANDS[name]
    if isinstance(functions, str):
        tyro.cli(getattr(import_module(module), functions), prog=f"ndr {name}", args=words)
        return
    room = import_module(module)
    subcommands: dict[str, Callable[..., Any]] = {each: getattr(room, each) for each in functions}
    tyro.extras.subcommand_cli_from_dict(subcommands, prog=f"ndr {name}", args=words)
