"""The live table of trials: status, iteration, accuracies, time left."""

import sys
import time
from dataclasses import dataclass, field
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

# Finished runs that stay in sight.
RECENT = 8
STYLES = {"running": "cyan", "finished": "green", "failed": "red", "stopped": "yellow", "waiting": "dim"}


@dataclass
class Line:
    """How one run stands."""

    status: str
    total: int
    reason: str | None = None
    row: dict[str, Any] = field(default_factory=dict)
    since: float = 0.0
    first: tuple[int, float] | None = None
    """iteration and time of the first evaluation heard, for the speed"""

    @property
    def left(self) -> float | None:
        """Seconds until the last iteration, at the speed so far."""
        if self.status != "running" or self.first is None or "iteration" not in self.row:
            return None
        seconds, done = self.row.get("seconds"), self.row["iteration"]
        return None if not seconds or not done else (self.total - done) * seconds / done


class Board:
    """Drawn in place on a terminal; elsewhere a line for each event."""

    def __init__(self, workers: int, console: Console | None = None) -> None:
        self.workers = workers
        self.console = console or Console(stderr=True)
        self.lines: dict[str, Line] = {}
        self.live = Live(console=self.console, auto_refresh=False, transient=False)
        self.drawn = 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.draw(now=True)
            self.live.stop()

    def add(self, name: str, status: str, total: int, reason: str | None = None) -> None:
        self.lines[name] = Line(status, total, reason)
        if status == "failed":
            self.say(f"{name}: failed: {reason}")

    def started(self, name: str) -> None:
        again = self.lines[name].status == "running"
        self.lines[name].status = "running"
        self.lines[name].since = time.monotonic()
        self.say(f"{name}: {'its worker died; started again' if again else 'started'}")

    def heard(self, name: str, row: dict[str, Any]) -> None:
        line = self.lines[name]
        line.row = row
        line.first = line.first or (row["iteration"], time.monotonic())
        self.say(f"{name}: iteration {row['iteration']}/{line.total}  iid {row['iid']:.3f}  valid {row['valid']:.3f}")

    def ended(self, name: str, row: dict[str, Any]) -> None:
        line = self.lines[name]
        line.row = {**line.row, **row}
        line.reason = row.get("failed")
        line.status = "finished" if line.reason is None else "failed"
        self.say(f"{name}: {summary(line)}")

    def stopped(self, name: str, why: str) -> None:
        self.lines[name].status, self.lines[name].reason = "stopped", why
        self.say(f"{name}: stopped, {why}")

    def say(self, text: str) -> None:
        if not self.console.is_terminal:
            print(text, file=sys.stderr, flush=True)

    def draw(self, now: bool = False) -> None:
        if self.console.is_terminal and (now or time.monotonic() - self.drawn > 0.5):
            self.drawn = time.monotonic()
            self.live.update(Group(self.table(), self.totals()), refresh=True)

    def table(self) -> Table:
        """Running and failed runs, and those that finished last."""
        table = Table(box=None, header_style="bold")
        for heading in ("run", "status", "iteration", "iid", "valid", "test", "left"):
            table.add_column(heading, justify="left" if heading in ("run", "status") else "right")
        over = [name for name, line in self.lines.items() if line.status in ("finished", "stopped")]
        shown = {*over[-RECENT:]} | {name for name, line in self.lines.items() if line.status in ("running", "failed")}
        for name, line in self.lines.items():
            if name in shown:
                accuracies = [f"{line.row[key]:.3f}" if key in line.row else "" for key in ("iid", "valid", "test")]
                done = f"{line.row['iteration']}/{line.total}" if "iteration" in line.row else ""
                status = Text(line.status, style=STYLES[line.status])
                table.add_row(name, status, done, *accuracies, duration(line.left))
                if line.reason is not None:
                    table.add_row(Text(f"  {line.reason}", style="red" if line.status == "failed" else "yellow"))
        return table

    def totals(self) -> str:
        count = {
            status: sum(line.status == status for line in self.lines.values())
            for status in ("finished", "running", "waiting", "stopped", "failed")
        }
        words = [f"{number} {status}" for status, number in count.items() if number]
        left = self.left()
        return " · ".join(words + ([f"about {duration(left)} left"] if left else []))

    def left(self) -> float | None:
        """Of the whole grid: what runs, and what waits at the mean speed of what has run."""
        known = [line.row["seconds"] / line.row["iteration"] for line in self.lines.values() if line.row.get("seconds")]
        if not known:
            return None
        speed = sum(known) / len(known)
        running = [line.left or 0.0 for line in self.lines.values() if line.status == "running"]
        waiting = sum(line.total * speed for line in self.lines.values() if line.status == "waiting")
        return float(max([*running, (sum(running) + waiting) / self.workers]))


def summary(line: Line) -> str:
    if line.reason is not None:
        return f"failed: {line.reason}"
    return "finished  " + "  ".join(f"{key} {line.row[key]:.4f}" for key in ("iid", "valid", "test") if key in line.row)


def duration(seconds: float | None) -> str:
    """`35 s`, `12 min`, `3.5 h`, `2.1 days`."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "days"), (3_600, "h")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
