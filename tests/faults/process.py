"""Commands as processes that can be harmed: forked, so that a thousand of them cost little."""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# A command that takes longer than this hangs.
PATIENCE = 900.0


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said on stderr."""

    code: int
    said: str

    @property
    def killed(self) -> bool:
        return self.code < 0

    @property
    def sentence(self) -> str:
        lines = [line for line in self.said.splitlines() if line.startswith("ndr: ")]
        return lines[-1].removeprefix("ndr: ") if lines else ""

    @property
    def clumsy(self) -> str | None:
        """What a person should never see."""
        for words in ("Traceback (most recent call last)", "Exception ignored", "core dumped", "Segmentation"):
            if words in self.said:
                return words
        if self.code > 0 and not self.sentence and "failed" not in self.said:
            return f"exit code {self.code} without a sentence"
        return None


class Command:
    """`ndr` with these words in a folder, under way."""

    def __init__(self, words: list[str], folder: Path, harm: Callable[[], None] | None = None) -> None:
        self.began = time.monotonic()
        self.said = b""
        # A pipe, because limits on files must not cut off what the command says.
        self.ear, self.mouth = os.pipe()
        os.set_blocking(self.ear, False)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.run(words, folder, harm)
        os.close(self.mouth)

    def run(self, words: list[str], folder: Path, harm: Callable[[], None] | None) -> None:
        """In the child: everything a fresh process would do, but for the imports."""
        code = 1
        try:
            os.setsid()
            os.dup2(self.mouth, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.chdir(folder)
            os.environ["NDR_DATA"] = "data"
            if harm is not None:
                harm()
            from ndr.cli import main

            main(words)
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    code = code or 1
            os._exit(code)

    @property
    def running(self) -> bool:
        self.listen()
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def listen(self) -> None:
        with suppress(BlockingIOError):
            while heard := os.read(self.ear, 65_536):
                self.said += heard

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Ended:
        while self.running:
            if time.monotonic() - self.began > PATIENCE:
                self.kill()
                self.said += b"\nTraceback (most recent call last): it hangs"
                break
            time.sleep(0.005)
        _, status = os.waitpid(self.pid, 0)
        self.seconds = time.monotonic() - self.began
        self.listen()
        os.close(self.ear)
        return Ended(os.waitstatus_to_exitcode(status), self.said.decode(errors="replace"))


def preload() -> None:
    """Import once what the commands import."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import lightning_fabric  # noqa: F401
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import torch
    import tyro  # noqa: F401

    import ndr.cli
    import ndr.data.commands
    import ndr.data.export
    import ndr.data.stats
    import ndr.train.commands
    import ndr.train.loop
    import ndr.view.commands
    import ndr.view.page
    import ndr.view.plots
    import ndr.view.studio  # noqa: F401

    torch.set_num_threads(1)
