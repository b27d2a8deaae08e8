"""A campaign: many faults, each judged by what the next command makes of it."""

import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .injections import FAULTS, FROM_OUTSIDE, Scene, at_write
from .process import Command, Ended
from .victims import TRAIN, VICTIMS, Victim, half_written, lay_out, outcome

# How often a sentence is followed before it counts as bad advice.
ATTEMPTS = 5


@dataclass(frozen=True)
class Verdict:
    """What became of one fault."""

    number: int
    victim: str
    fault: str
    lost: str | None
    """why it counts as lost, or None"""
    told: str
    """the last sentence on the way, if there was any"""
    took_hold: bool = True
    """whether there was a fault at all: a kill may come too late, a disk may have room enough"""

    @property
    def counts(self) -> bool:
        return self.took_hold or self.lost is not None


@dataclass(frozen=True)
class Undisturbed:
    """What a victim comes to when nothing happens to it."""

    outcome: dict[str, str]
    seconds: float
    writes: int


class Campaign:
    """Prepares once, then injects fault after fault; the same seed gives the same faults."""

    def __init__(self, folder: Path, seed: int = 0, grids: bool = True) -> None:
        self.folder, self.seed = folder, seed
        self.ready, self.other = folder / "ready", folder / "other"
        lay_out(self.ready)
        self.must([*TRAIN, "--log", "none"], self.ready)
        lay_out(self.other, self.ready)
        self.must(["8" if word == "7" else word for word in [*TRAIN, "--log", "none"]], self.other)
        self.victims = [victim for victim in VICTIMS if grids or not victim.forks]
        self.references: dict[str, Undisturbed] = {}

    def must(self, words: list[str], folder: Path) -> None:
        ended = Command(words, folder).wait()
        if ended.code:
            raise RuntimeError(f"the preparation failed: {ended.said}")

    def reference(self, victim: Victim) -> Undisturbed:
        """Run once without a fault, counting the writes."""
        if victim.name not in self.references:
            folder = self.folder / "reference"
            lay_out(folder, self.ready, victim.needs_run)
            count = self.folder / "writes"
            command = Command(victim.words, folder, counting(count))
            ended = command.wait()
            if ended.code or half_written(victim, folder):
                raise RuntimeError(f"{victim.name} fails by itself: {ended.said}")
            writes = count.stat().st_size if count.exists() else 1
            self.references[victim.name] = Undisturbed(outcome(victim, folder), command.seconds, max(writes, 1))
            shutil.rmtree(folder)
            count.unlink(missing_ok=True)
        return self.references[victim.name]

    def pairs(self) -> Iterator[tuple[Victim, str]]:
        """Every fault with every victim that it fits, in turns, so that any first part is mixed."""
        chance = random.Random(self.seed)
        while True:
            fitting = [
                (victim, fault)
                for victim in self.victims
                for fault in FAULTS
                if not victim.forks or fault in FROM_OUTSIDE
            ]
            chance.shuffle(fitting)
            yield from fitting

    def inject(self, number: int, victim: Victim, fault: str) -> Verdict:
        try:
            undisturbed = self.reference(victim)
        except RuntimeError as error:
            return Verdict(number, victim.name, fault, str(error), "")
        folder = self.folder / f"fault-{number}"
        lay_out(folder, self.ready, victim.needs_run)
        scene = Scene(
            victim,
            folder,
            self.ready,
            self.other,
            random.Random(f"{self.seed} {number}"),
            undisturbed.seconds,
            undisturbed.writes,
        )
        try:
            took_hold = FAULTS[fault](scene)
            lost = scene.complaint or self.judge(scene, undisturbed)
        finally:
            scene.clear()
        told = next((ended.sentence for ended in reversed(scene.ended) if ended.sentence), "")
        return Verdict(number, victim.name, fault, lost, told, took_hold)

    def judge(self, scene: Scene, undisturbed: Undisturbed) -> str | None:
        """Why something is lost: half a file, a traceback, advice that does not help, or another result."""
        for ended in scene.ended:
            if ended.clumsy:
                return f"{ended.clumsy}: {ended.said[-600:]}"
            if ended.killed and not scene.kills:
                return f"it died of signal {-ended.code}: {ended.said[-600:]}"
        half = half_written(scene.victim, scene.folder, scene.damaged)
        if half:
            return f"half-written: {', '.join(half)}"
        checks = [scene.victim.words]
        if scene.victim.exclusive:
            # A finished run is not read again by the command that made it: damage shows when it is used.
            runs = sorted({run_of(path.relative_to(scene.folder)) for path in scene.damaged})
            checks += [["eval", str(run), "--split", "iid", "--data", "data"] for run in runs if run.name]
        for words in checks:
            problem = self.goes_on(scene, words)
            if problem:
                return problem
        found = outcome(scene.victim, scene.folder)
        # The checkpoints of a finished run serve nobody any more: one that was harmed then is not mended.
        spare = {path.relative_to(scene.folder).as_posix() for path in scene.damaged if path.name == "last.safetensors"}
        differing = sorted(
            name
            for name in (undisturbed.outcome | found).keys() - spare
            if undisturbed.outcome.get(name) != found.get(name)
        )
        return f"the outcome is another: {', '.join(differing)}" if differing else None

    def follow(self, scene: Scene, words: list[str], ended: Ended) -> list[str]:
        """Do what a sentence says, and no more."""
        for name in re.findall(r"(?:remove|delete) (\S+?)[;,.]?(?=\s|$)", ended.sentence):
            place = scene.folder / name
            if place.is_dir() and name not in (".", "run", "runs"):
                shutil.rmtree(place)
            elif place.is_file():
                place.unlink()
        if "run the training again" in ended.sentence and words[0] not in ("train", "grid"):
            self.goes_on(scene, scene.victim.words if scene.victim.exclusive else [*TRAIN, "--log", "none"])
        if "in use by" in ended.sentence:
            time.sleep(1)
        return [*words, "--retry", "all"] if words[0] == "grid" and "--retry" in ended.said else words

    def goes_on(self, scene: Scene, words: list[str]) -> str | None:
        """Run the command until it is done, doing what its sentences say."""
        for _ in range(ATTEMPTS):
            ended = scene.run(words)
            if ended.clumsy or ended.killed:
                return f"{ended.clumsy or 'it died'}: {ended.said[-600:]}"
            if ended.code == 0:
                return None
            words = self.follow(scene, words, ended)
        return f"its sentences do not help: {ended.sentence or ended.said[-300:]}"


def run_of(path: Path) -> Path:
    """The folder of the run that a file is part of; the folder itself if of none."""
    depth = {"run": 1, "runs": 2}.get(path.parts[0], 0)
    return Path(*path.parts[:depth]) if len(path.parts) > depth else Path()


def counting(file: Path) -> object:
    """Note every write in a file, one byte each."""

    def note() -> None:
        with file.open("ab") as notes:
            notes.write(b".")

    # Never reached as a place: every call is noted.
    return at_write(EVERY, note)


class _Every(int):
    """Equal to every number."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = int.__hash__


EVERY = _Every()


def table(verdicts: list[Verdict]) -> str:
    """The tally as Markdown: injected, recovered and lost, by fault."""
    injected, lost = Counter(each.fault for each in verdicts), Counter(each.fault for each in verdicts if each.lost)
    lines = ["| fault | injected | recovered | lost |", "|---|---:|---:|---:|"]
    for fault in FAULTS:
        if injected[fault]:
            lines.append(f"| {fault} | {injected[fault]} | {injected[fault] - lost[fault]} | {lost[fault]} |")
    total, gone = len(verdicts), sum(lost.values())
    return "\n".join([*lines, f"| **all** | **{total}** | **{total - gone}** | **{gone}** |"])


def campaign_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="ndr-faults-"))
