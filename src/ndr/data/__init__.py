"""Text → tokens → batches: splits kept on disk, and which samples each training iteration sees."""

from ndr.data.sampler import Equal, LengthBucketed, Uniform, longest_first
from ndr.data.split import Batch, Split
from ndr.data.store import data_folder, open_split
from ndr.data.vocabulary import Vocabulary

__all__ = [
    "Batch",
    "Equal",
    "LengthBucketed",
    "Split",
    "Uniform",
    "Vocabulary",
    "data_folder",
    "longest_first",
    "open_split",
]
