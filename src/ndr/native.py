"""Finds the shared libraries that were compiled when the package was installed."""

import ctypes
from functools import cache
from pathlib import Path


@cache
def load(name: str) -> ctypes.CDLL | None:
    """The library `<room>/<name>`, or None where it was not built or cannot be loaded.

    torch is imported first: the library then shares torch's OpenMP runtime and threads.
    """
    import torch  # noqa: F401

    stem = Path(__file__).parent / name
    for suffix in (".so", ".dylib", ".dll"):
        try:
            return ctypes.CDLL(str(stem.with_suffix(suffix)))
        except OSError:
            continue
    return None
