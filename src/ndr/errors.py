"""What is raised when a person, not the program, has to mend something."""

import difflib
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType


class Refusal(ValueError):
    """Input that cannot be used; the text is one sentence that says what to do. Commands print it and exit with 2."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint such as ` (did you mean "steps"?)`, or nothing when no known word is close."""
    matches = difflib.get_close_matches(word, list(known), n=1)
    return f' (did you mean "{matches[0]}"?)' if matches else ""


def complaint(error: Exception) -> str:
    """What is wrong, in one line; of several things that pydantic finds the first, with its place."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return ": ".join(filter(None, (".".join(str(part) for part in first["loc"]), first["msg"])))


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, in the words of Python, torch or the system."""
    said = str(error).lower()
    phrases = ("out of memory", "can't allocate memory", "cannot allocate memory", "unable to allocate", "bad_alloc")
    return isinstance(error, MemoryError) or any(phrase in said for phrase in phrases)


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which install brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise Refusal(f"this needs {error.name}; install it with: pip install 'ndr[{extra}]'") from error
