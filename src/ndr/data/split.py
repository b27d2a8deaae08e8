"""A split, memory-mapped: nothing is read before it is asked for."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ndr.data.vocabulary import Vocabulary
from ndr.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Samples side by side, without the begin and end tokens that models add."""

    tokens: "Tensor"  # long [batch, column], padded with 0
    lengths: "Tensor | None"  # long [batch]; None when all are equal
    answers: "Tensor"  # long [batch]


@dataclass(frozen=True, eq=False)
class Split:
    """The samples of one split of a task, as flat arrays."""

    task: Task
    name: str
    seed: int
    checksum: str
    flat: npt.NDArray[Any]  # token ids of all samples, one after another
    offsets: npt.NDArray[np.int64]  # where each sample begins, and the end
    answers: npt.NDArray[Any]
    depths: npt.NDArray[Any]
    # Where it is kept; None for one that lives in memory.
    folder: Path | None = None

    def __len__(self) -> int:
        return len(self.answers)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens per sample."""
        return np.diff(self.offsets)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self.task)

    def count(self, tokens: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """How often these tokens occur in each sample."""
        ids = [self.task.tokens.index(token) for token in tokens]
        before = np.concatenate([[0], np.cumsum(np.isin(self.flat, ids))])
        return np.diff(before[self.offsets])

    def tokens(self, index: int) -> npt.NDArray[Any]:
        """The token ids of one sample."""
        index = range(len(self))[index]
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    def text(self, index: int) -> str:
        return self.task.join(self.vocabulary.decode(self.tokens(index).tolist()))

    def answer(self, index: int) -> str:
        return self.task.answers[int(self.answers[index])]

    def batch(self, indices: npt.ArrayLike) -> Batch:
        """These samples as tensors, padded to the longest of them."""
        import torch

        chosen = np.asarray(indices)
        starts = self.offsets[chosen]
        lengths = self.offsets[chosen + 1] - starts
        longest = int(lengths.max(initial=0))
        places = starts[:, None] + np.arange(longest)
        ragged = longest > int(lengths.min(initial=longest))
        if ragged:
            inside = np.arange(longest) < lengths[:, None]
            tokens = np.where(inside, self.flat[np.where(inside, places, 0)], 0)
        else:
            tokens = self.flat[places]
        return Batch(
            torch.from_numpy(tokens.astype(np.int64)),
            torch.from_numpy(lengths) if ragged else None,
            torch.from_numpy(self.answers[chosen].astype(np.int64)),
        )
