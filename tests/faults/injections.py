"""The faults. Each harms one command, or the files it lives on, and leaves the rest to the judge.

Each says whether it took hold: a kill that came too late, or a disk with room enough, is no fault and is not counted.
"""

import errno
import mmap
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .process import Command, Ended
from .victims import Victim, files_of, lay_out

MOUNTS = os.geteuid() == 0 and shutil.which("mount") is not None


@dataclass
class Scene:
    """One victim in a folder of its own, and everything that happens to it."""

    victim: Victim
    folder: Path
    ready: Path
    other: Path
    """the folder of another run of the same recipe"""
    chance: random.Random
    seconds: float
    """that the command takes undisturbed"""
    writes: int
    """how often it then puts a file in its place or waits for the disk"""
    ended: list[Ended] = field(default_factory=list)
    damaged: set[Path] = field(default_factory=set)
    complaint: str | None = None
    kills: bool = False
    """whether the fault itself is the death of the command"""
    mounted: bool = False

    def start(self, words: list[str] | None = None, harm: Callable[[], None] | None = None) -> Command:
        return Command(words or self.victim.words, self.folder, harm)

    def run(self, words: list[str] | None = None, harm: Callable[[], None] | None = None) -> Ended:
        ended = self.start(words, harm).wait()
        self.ended.append(ended)
        return ended

    def bring_half_way(self) -> None:
        """Let the command work for a while and kill it, with something to go on from if it keeps any."""
        command = self.start()
        while command.running and self.victim.exclusive and not files_of(self.folder, ("**/last.safetensors",)):
            time.sleep(0.01)
        time.sleep(self.chance.uniform(0, 0.5 * self.seconds))
        if command.running:
            command.kill()
        command.wait()

    def mount(self, size: int) -> None:
        """Put the folder on a disk of its own of this size."""
        self.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.folder)], check=True)
        self.mounted = True

    def remount(self, options: str) -> None:
        words = ["mount", "-o", f"remount,{options}", str(self.folder)]
        subprocess.run(words, check=True, capture_output=True)

    def clear(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def kill(scene: Scene) -> bool:
    """SIGKILL at any moment, up to a few times in a row."""
    scene.kills = True
    for _ in range(scene.chance.choice((1, 1, 2, 3))):
        command = scene.start()
        time.sleep(scene.chance.uniform(0, scene.seconds))
        if command.running:
            command.kill()
        scene.ended.append(command.wait())
    return any(ended.killed for ended in scene.ended)


def at_write(place: int, strike: Callable[[], None]) -> Callable[[], None]:
    """Strike when a file is being put in its place, or waits for the disk, for the n-th time."""

    def harm() -> None:
        calls = 0

        def striking(real: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object, **options: object) -> object:
                nonlocal calls
                calls += 1
                if calls == place:
                    strike()
                return real(*arguments, **options)

            return call

        for name in ("fsync", "replace", "rename"):
            setattr(os, name, striking(getattr(os, name)))

    return harm


def kill_at_write(scene: Scene) -> bool:
    """SIGKILL just as a file is put in its place."""
    scene.kills = True
    place = scene.chance.randint(1, scene.writes)
    return scene.run(harm=at_write(place, lambda: os.kill(os.getpid(), signal.SIGKILL))).killed


def failing_write(scene: Scene) -> bool:
    """The disk reports an error, or that it is full, at one of the writes."""
    reason = scene.chance.choice((errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS))
    # Memory that is shared with the child: what it notes is seen here.
    struck = mmap.mmap(-1, 1)

    def strike() -> None:
        struck[0] = 1
        raise OSError(reason, os.strerror(reason))

    scene.run(harm=at_write(scene.chance.randint(1, scene.writes), strike))
    return bool(struck[0])


def full_disk(scene: Scene) -> bool:
    """A disk with room for what is there and a part of what comes."""
    if not MOUNTS:
        return size_limit(scene)
    there = sum(4096 + -(-path.stat().st_size // 4096) * 4096 for path in scene.folder.rglob("*"))
    shutil.rmtree(scene.folder)
    scene.mount(2 * there + 2**20)
    lay_out(scene.folder, scene.ready, scene.victim.needs_run)
    used = shutil.disk_usage(scene.folder).used
    scene.remount(f"size={used + scene.chance.randrange(0, 80_000, 4096)}")
    ended = scene.run()
    scene.remount("size=500m")
    return ended.code != 0


def size_limit(scene: Scene) -> bool:
    """No file may grow beyond a limit: writes stop in the middle of a file."""
    limit = scene.chance.choice((0, 1, scene.chance.randrange(2_000), scene.chance.randrange(60_000)))
    return scene.run(harm=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))).code != 0


def read_only(scene: Scene) -> bool:
    """Nothing can be written, from the beginning or from half of the way."""
    if MOUNTS:
        shutil.rmtree(scene.folder)
        scene.mount(500 * 2**20)
        lay_out(scene.folder, scene.ready, scene.victim.needs_run)
    if scene.chance.random() < 0.5:
        scene.bring_half_way()
    folders = [path for path in (scene.folder, *scene.folder.rglob("*")) if path.is_dir()]
    if MOUNTS:
        # Who still writes (a grid's workers live on for a moment) keeps the disk from being closed.
        for _ in range(200):
            with suppress(subprocess.CalledProcessError):
                scene.remount("ro")
                break
            time.sleep(0.1)
    else:
        for path in folders:
            path.chmod(0o555)
    ended = scene.run()
    if MOUNTS:
        scene.remount("rw")
    else:
        for path in folders:
            path.chmod(0o755)
    return ended.code != 0


def harmed_file(scene: Scene) -> Path | None:
    """One of the files that matter, after the command was killed on its way or has ended."""
    finished = scene.chance.random() < 0.4
    if "training" in scene.victim.name or scene.victim.name in ("grid", "data making"):
        if finished:
            scene.run()
        else:
            scene.bring_half_way()
    globs = scene.victim.harmed
    if finished and scene.victim.exclusive:
        # What a finished run is kept for; its checkpoints and curves are only copies then.
        globs = tuple(f"{root}/{name}" for root in ("run", "runs/*") for name in ("re*.json", "best/*"))
    files = [path for path in files_of(scene.folder, globs) if path.stat().st_size]
    if not files:
        return None
    chosen = scene.chance.choice(files)
    scene.damaged.add(chosen)
    return chosen


def truncated(scene: Scene) -> bool:
    """A file loses its end."""
    path = harmed_file(scene)
    if path is None:
        return False
    content = path.read_bytes()
    kept = scene.chance.choice((0, 1, scene.chance.randrange(len(content)), len(content) - 1))
    path.write_bytes(content[:kept])
    return kept < len(content)


def flipped(scene: Scene) -> bool:
    """One bit of a file turns over."""
    path = harmed_file(scene)
    if path is None:
        return False
    content = bytearray(path.read_bytes())
    content[scene.chance.randrange(len(content))] ^= 1 << scene.chance.randrange(8)
    path.write_bytes(content)
    return True


def swapped(scene: Scene) -> bool:
    """A file changes places with another of its kind, or with its namesake of another run."""
    path = harmed_file(scene)
    if path is None:
        return False
    mine = path.read_bytes()
    namesake = scene.other / path.relative_to(scene.folder)
    if namesake.is_file() and scene.chance.random() < 0.5:
        path.write_bytes(namesake.read_bytes())
        return path.read_bytes() != mine
    kin = [each for each in files_of(scene.folder, scene.victim.harmed) if each.suffix == path.suffix and each != path]
    if kin:
        mate = scene.chance.choice(kin)
        path.write_bytes(mate.read_bytes())
        mate.write_bytes(mine)
        scene.damaged.add(mate)
    return path.read_bytes() != mine


def clock_jump(scene: Scene) -> bool:
    """The clock jumps by years at any moment, and files bear dates from the future and the far past."""
    if scene.chance.random() < 0.5:
        scene.bring_half_way()
    for path in scene.folder.rglob("*"):
        with suppress(OSError):
            os.utime(path, (scene.chance.uniform(0, 4e9),) * 2)
    seed = scene.chance.random()

    def harm() -> None:
        chance, real, real_ns = random.Random(seed), time.time, time.time_ns

        def jump() -> float:
            return chance.choice((-1e9, -3600.0, 0.0, 0.0, 3600.0, 1e9))

        time.time = lambda: real() + jump()
        time.time_ns = lambda: real_ns() + int(1e9 * jump())

    scene.run(harm=harm)
    return True


def two_at_once(scene: Scene) -> bool:
    """The same command a second time while the first is at work."""
    first = scene.start()
    if scene.victim.exclusive:
        lock = scene.folder / ("runs/lock" if scene.victim.forks else "run/lock")
        while first.running and not (lock.exists() and lock.read_text()):
            time.sleep(0.005)
    else:
        time.sleep(scene.chance.uniform(0, 0.5 * scene.seconds))
    second = scene.start()
    together = first.running
    ended = second.wait()
    alone = not first.running
    scene.ended += [ended, first.wait()]
    if scene.victim.exclusive and not alone and f"in use by process {first.pid} " not in ended.sentence:
        scene.complaint = f"the second process was not told who holds the folder: {ended.sentence or ended.said[-200:]}"
    return together


def low_memory(scene: Scene) -> bool:
    """Memory runs out somewhere on the way."""
    room = int(2 ** scene.chance.uniform(20, 29))

    def harm() -> None:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + room, now + room))

    return scene.run(harm=harm).code != 0


FAULTS: dict[str, Callable[[Scene], bool]] = {
    "kill -9": kill,
    "kill -9 at a write": kill_at_write,
    "failing write": failing_write,
    "full disk": full_disk,
    "cut-off write": size_limit,
    "read-only folder": read_only,
    "truncated file": truncated,
    "flipped bit": flipped,
    "swapped file": swapped,
    "clock jump": clock_jump,
    "two processes": two_at_once,
    "low memory": low_memory,
}
# A family of processes is harmed from outside: limits set in the first of them would harm Ray, not the grid.
FROM_OUTSIDE = (
    *("kill -9", "full disk", "read-only folder", "truncated file", "flipped bit", "swapped file"),
    *("clock jump", "two processes"),
)
