"""Networks without numbers: names and shapes, before any memory is taken."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Unfilled(TorchFunctionMode):
    """Leaves weights as they are: there is nothing to fill, and torch would import its compiler (2 s) to try."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def outline() -> Iterator[None]:
    """Networks built inside have weights of the right shapes, on the meta device, and nothing in them."""
    with torch.device("meta"), Unfilled():
        yield
