"""The explorer under load: its memory is watched, and it is ended with requests in flight."""

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .clients import Notes, client, exchange, question


@dataclass
class Report:
    """How it went."""

    clients: int
    seconds: float
    notes: Notes
    memory: list[int]
    """resident, in bytes, once a second"""
    in_flight: Counter[int] = field(default_factory=Counter)
    """statuses of requests that were under way when it was told to end; 0 is none"""
    exit_code: int | None = None
    ending: float = 0.0
    said: str = ""

    @property
    def growth(self) -> float:
        """Of the second half's most over the first half's most: bounded memory is flat."""
        half = len(self.memory) // 2
        return max(self.memory[half:]) / max(self.memory[:half])

    @property
    def problems(self) -> list[str]:
        found = [f"{what}: {count}" for what, count in self.notes.failures.items()]
        if self.exit_code != 0 or self.said:
            found.append(f"it ended with {self.exit_code} and said {self.said[-500:]!r}")
        if set(self.in_flight) - {200, 503}:
            found.append(f"requests in flight got {dict(self.in_flight)}")
        return found

    def text(self) -> str:
        statuses: dict[str, list[str]] = {}
        for (manner, status), count in sorted(self.notes.answers.items()):
            statuses.setdefault(manner, []).append(f"{count:,} × {status or 'cut off'}")
        lines = [f"`python -m tests.load --clients {self.clients} --seconds {self.seconds:.0f}`:", ""]
        lines += ["| requests | answers |", "|---|---|"]
        lines += [f"| {manner} | {', '.join(each)} |" for manner, each in statuses.items()]
        notes, mega = self.notes, 2**20
        lines += [
            "",
            f"- valid requests: {len(notes.latencies):,}, errors {sum(notes.failures.values())}, "
            f"p50 {notes.percentile(0.5):.3f} s, p99 {notes.percentile(0.99):.3f} s, "
            f"slowest {max(notes.latencies, default=0):.3f} s",
            f"- memory: {self.memory[0] / mega:.0f} MiB at first, {max(self.memory) / mega:.0f} MiB at most, "
            f"{self.memory[-1] / mega:.0f} MiB at the end",
            f"- SIGTERM with {sum(self.in_flight.values())} requests in flight: answered "
            f"{', '.join(f'{count} × {status}' for status, count in sorted(self.in_flight.items()))}; "
            f"exit code {self.exit_code} after {self.ending:.1f} s",
        ]
        return "\n".join(lines)


def start(network: Path) -> tuple[subprocess.Popen[str], tuple[str, int]]:
    """`ndr explore` as a user starts it, and its address once it answers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ndr", "explore", str(network), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    found = re.search(r"127\.0\.0\.1:(\d+)/", process.stdout.readline())
    assert found is not None
    return process, ("127.0.0.1", int(found[1]))


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def burden(process: subprocess.Popen[str], address: tuple[str, int], clients: int, seconds: float) -> Report:
    # The first answer waits for torch and the network.
    await asyncio.wait_for(exchange(address, question("/api/trace", model=0, text="101 d")), 900)
    report = Report(clients, seconds, Notes(), [resident(process.pid)])
    until = time.monotonic() + seconds
    working = [
        asyncio.create_task(client(address, random.Random(place), until, report.notes)) for place in range(clients)
    ]
    while time.monotonic() < until:
        await asyncio.sleep(1)
        report.memory.append(resident(process.pid))
    await asyncio.gather(*working)
    flying = [
        asyncio.create_task(exchange(address, question("/api/trace", model=0, text="101" + " a" * 40, steps=100)))
        for _ in range(16)
    ]
    await asyncio.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    report.in_flight = Counter(status for status, _ in await asyncio.gather(*flying))
    report.exit_code = await asyncio.to_thread(process.wait, 120)
    report.ending = time.monotonic() - began
    assert process.stderr is not None
    report.said = process.stderr.read()
    return report


def press(network: Path, clients: int, seconds: float) -> Report:
    process, address = start(network)
    try:
        # In a thread of its own: tests with a browser leave a running loop behind in theirs.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, burden(process, address, clients, seconds)).result()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
