from pathlib import Path

import pytest
import torch

from ndr.errors import Refusal
from ndr.train.checkpoint import load_checkpoint, save_checkpoint, write_whole

TENSORS = {"a": torch.randn(3, 5), "b": torch.tensor(7.0), "empty": torch.zeros(0, 3), "n": torch.arange(4)}


def test_what_was_saved_comes_back(tmp_path: Path):
    save_checkpoint(tmp_path / "c", TENSORS, {"iteration": 11})
    tensors, state = load_checkpoint(tmp_path / "c")
    assert state == {"iteration": 11}
    assert set(tensors) == set(TENSORS)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_a_missing_checkpoint_is_none(tmp_path: Path):
    assert load_checkpoint(tmp_path / "c") is None


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path):
    file = tmp_path / "c"
    save_checkpoint(file, {"a": torch.randn(7)}, {"iteration": 11})
    whole = file.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        found = load_checkpoint(file)
        # A flip in the padding of the header changes nothing that is read.
        assert found is None or (found[1] == {"iteration": 11} and damaged[place] in b' \x00!"$(0@`\xa0'), place
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert load_checkpoint(file) is None


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "c"
    write_whole(file, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Refusal, match="No space left on device"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_checkpoint_larger_than_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_checkpoint(tmp_path / "a.safetensors", {"a": torch.ones(99)}, {})
    assert load_checkpoint(tmp_path / "a.safetensors") is not None
    monkeypatch.setattr("ndr.train.checkpoint.physical_memory", lambda: 99)
    assert load_checkpoint(tmp_path / "a.safetensors") is None
