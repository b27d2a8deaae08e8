"""Splits on disk: same bytes, no leaks, whole or not there."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ndr.data import open_split
from ndr.data.store import verify
from ndr.errors import Refusal
from ndr.tasks import TASKS, ListOps, get_task
from ndr.whole import folder_beside

CHECKSUMS = json.loads(Path(__file__).with_name("checksums.json").read_text())
LARGE = {("listops", "clean", "train"), ("listops", "paper", "train"), ("listops", "paper", "test")}
SPLITS = ("train", "iid", "valid", "test")


def cases(large: bool) -> list[tuple[str, str, str]]:
    named = [(name, variant, split) for name in TASKS for variant in ("clean", "paper") for split in SPLITS]
    return [case for case in named if (case in LARGE) == large]


def check(name: str, variant: str, split: str) -> None:
    task = get_task(name, variant)
    found = open_split(task, split)
    assert found.checksum == CHECKSUMS[f"{name} {variant} {split}"]
    assert verify(found)
    # Balance and size.
    spec = task.splits[split]
    assert len(found) == len(spec)
    depths = np.bincount(found.depths)
    once = np.bincount([task.depth(text) for text in spec.always], minlength=len(depths))
    assert {depth: depths[depth] - once[depth] for depth, _ in spec.counts} == dict(spec.counts)
    if not spec.always:
        assert name.startswith("ctl") or np.ptp([count for _, count in spec.counts]) <= 1
    # None twice.
    seen = samples_of(found)
    assert len(seen) == len(found) - (len(spec.always) - len(set(spec.always)))


def samples_of(split) -> set[bytes]:
    raw, ends = split.flat.tobytes(), split.offsets
    return {raw[ends[place] : ends[place + 1]] for place in range(len(split))}


@pytest.mark.parametrize(("name", "variant", "split"), cases(large=False))
def test_pinned(name: str, variant: str, split: str) -> None:
    check(name, variant, split)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant", "split"), cases(large=True))
def test_pinned_large(name: str, variant: str, split: str) -> None:
    check(name, variant, split)


@pytest.mark.parametrize("variant", ["clean", "paper"])
@pytest.mark.parametrize("name", TASKS)
def test_nothing_of_train_is_anywhere_else(name: str, variant: str) -> None:
    task = get_task(name, variant)
    # For ListOps a part of train: held-out samples differ from every possible training sample.
    train = samples_of(open_split(task, "train", count=30_000 if name == "listops" else None))
    others = ["iid", "valid", "depth-3-5"] + (["test"] if (name, variant) != ("listops", "paper") else [])
    for split in others:
        both = train & samples_of(open_split(task, split, count=300 if split.startswith("depth") else None))
        allowed = set(task.splits[split].always) if split in task.splits else set()
        texts = {task.join(task.tokens[token] for token in sample) for sample in both}
        assert texts <= allowed, (split, len(texts))
    # Not even with another seed.
    assert not (train & samples_of(open_split(task, "iid", seed=1))) - {
        bytes(task.tokens.index(token) for token in task.tokenize(text)) for text in task.splits["iid"].always
    }


PROGRAM = """
import sys
from ndr.data import open_split
from ndr.tasks import get_task
for name, variant in (("ctl-forward", "paper"), ("arithmetic", "clean"), ("listops", "clean"), ("listops", "paper")):
    for split in ("train", "iid", "depth-6-9"):
        print(name, variant, split, open_split(get_task(name, variant), split, count=1000, folder=sys.argv[1]).checksum)
"""


def test_threads_and_hash_seeds_do_not_matter(tmp_path: Path) -> None:
    printed = []
    for number, (threads, seed) in enumerate([("1", "0"), ("3", "4242")]):
        environment = os.environ | {"OMP_NUM_THREADS": threads, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / str(number))]
        printed.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert printed[0] == printed[1] and printed[0].count("\n") == 12


def test_killed_while_making(data_folder: Path, tmp_path: Path) -> None:
    """SIGKILL at several moments: what is there is whole, and the next call gives the same bytes."""
    program = "from ndr.data import open_split; from ndr.tasks import ListOps; print('go', flush=True); "
    program += "open_split(ListOps(), 'train', count=60_000)"
    for delay in (0.0, 0.3, 0.6, 1.2):
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for about in data_folder.glob("*/[!.]*/about.json"):
            assert json.loads(about.read_text())["count"] == 60_000
    again = open_split(ListOps(), "train", count=60_000)
    fresh = open_split(ListOps(), "train", count=60_000, folder=tmp_path / "fresh")
    assert again.checksum == fresh.checksum and verify(again)


def test_what_a_killed_maker_left_is_swept_but_not_what_a_living_one_makes(data_folder: Path) -> None:
    place = open_split(get_task("arithmetic"), "test").folder
    assert place is not None
    shutil.rmtree(place)
    dead = place.with_name(f".{place.name}-dead")
    dead.mkdir()
    (dead / "tokens.npy").write_bytes(b"half")
    with folder_beside(place) as alive:
        assert not dead.exists()
        open_split(get_task("arithmetic"), "test")
        assert sorted(path.name for path in place.parent.iterdir()) == sorted([alive.name, place.name])
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_failure_leaves_nothing(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ndr.data.store.flush", full)
    with pytest.raises(Refusal, match="No space left"):
        open_split(get_task("arithmetic"), "test")
    assert not list(data_folder.glob("*/*"))


def test_damage_is_noticed(data_folder: Path) -> None:
    split = open_split(get_task("arithmetic"), "test")
    assert split.folder is not None
    tokens = split.folder / "tokens.npy"
    whole = tokens.read_bytes()
    tokens.write_bytes(whole[:-5])
    with pytest.raises(Refusal, match="damaged"):
        open_split(get_task("arithmetic"), "test")
    tokens.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(Refusal, match=r"checksum is another.*delete"):
        open_split(get_task("arithmetic"), "test")
    tokens.write_bytes(whole)
    (split.folder / "about.json").write_text("[]")
    with pytest.raises(Refusal, match="damaged"):
        open_split(get_task("arithmetic"), "test")
    os.truncate(split.folder / "about.json", 2**40)
    with pytest.raises(Refusal, match="it is far too long"):
        open_split(get_task("arithmetic"), "test")
    shutil.rmtree(split.folder)
    assert verify(open_split(get_task("arithmetic"), "test"))


def test_another_split_in_its_place_is_noticed() -> None:
    one, other = (open_split(get_task("arithmetic"), "test", seed=seed) for seed in (0, 1))
    assert one.folder is not None and other.folder is not None
    shutil.rmtree(one.folder)
    shutil.copytree(other.folder, one.folder)
    with pytest.raises(Refusal, match="another split"):
        open_split(get_task("arithmetic"), "test")


def test_seeds_counts_and_settings_are_kept_apart() -> None:
    task = get_task("listops")
    found = {
        open_split(task, "valid", count=50).checksum,
        open_split(task, "valid", count=51).checksum,
        open_split(task, "valid", count=50, seed=1).checksum,
        open_split(ListOps(max_length=40), "valid", count=50).checksum,
        open_split(get_task("listops", "paper"), "valid", count=50).checksum,
    }
    assert len(found) == 5


def test_opening_is_quick_and_compact(data_folder: Path) -> None:
    split = open_split(get_task("arithmetic"), "train")
    assert split.flat.dtype == np.uint8 and not split.flat.flags.writeable
    start = time.perf_counter()
    open_split(get_task("arithmetic"), "train")
    assert time.perf_counter() - start < 0.5
