"""The matrix product that torch itself uses, for native code that runs between torch's own operations."""

import ctypes
from functools import cache
from pathlib import Path

import torch


@cache
def product(dtype: torch.dtype) -> ctypes.c_void_p:
    """The address of BLAS's gemm inside torch; null where torch does not show one (a plain loop takes its place)."""
    name = {torch.float32: "sgemm_", torch.float64: "dgemm_"}[dtype]
    for library in sorted((Path(torch.__file__).parent / "lib").glob("*torch_cpu.*")):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(str(library)), name), ctypes.c_void_p)
        except (OSError, AttributeError):
            continue
    return ctypes.c_void_p(None)
