"""Clients of every manner: most ask what they should, some shout, mumble, dawdle or leave in the middle."""

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field

TEXTS = ["101 d a b", "110 a f b g d", "000", "011 a b c d e f g h"]
# A client that waits longer than this for a valid answer counts as failed.
PATIENCE = 120.0


@dataclass
class Notes:
    """What the clients saw."""

    latencies: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    """of valid requests"""
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """by manner and status; 0 is a connection that the server ended"""

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def question(path: str, **asked: object) -> bytes:
    return request("POST", path, json.dumps(asked).encode(), content_type="application/json")


def valid(chance: random.Random) -> bytes:
    text = chance.choice(TEXTS)
    return chance.choice(
        (
            request("GET", "/api/models"),
            request("GET", chance.choice(("/", "/page/app.js", "/page/style.css"))),
            question("/api/parse", model=0, text=text),
            question("/api/trace", model=0, text=text),
            question("/api/trace", model=0, text=text, steps=chance.randrange(1, 30)),
        )
    )


def malformed(chance: random.Random) -> bytes:
    return chance.choice(
        (
            chance.randbytes(200),
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET  /api/models\r\nhost 127.0.0.1\r\n\r\n",
            request("POST", "/api/trace", b"{", content_type="application/json"),
            request("POST", "/api/trace", b"[" * 10_000, content_type="application/json"),
            question("/api/trace", model="0", text=["101"], steps=-1),
            question("/api/trace", model=0, text="101 \ud800"),
            request("DELETE", "/api/models"),
            request("GET", "/page/../server.py"),
            request("GET", "/api/models", origin="https://evil.example"),
            request("GET", "/", host="evil.example"),
            b"POST /api/trace HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n\r\n",
        )
    )


def oversize(chance: random.Random) -> bytes:
    return chance.choice(
        (
            request("POST", "/api/trace", b"x" * 200_000, content_type="application/json"),
            question("/api/trace", model=0, text="101" + " a" * 1_990, steps=200),
            request("GET", "/api/models", padding="x" * 100_000),
            b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
            b"POST /api/parse HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99999999999\r\n\r\n" + b"x" * 100_000,
        )
    )


async def exchange(address: tuple[str, int], said: bytes) -> tuple[int, bytes]:
    """The status and the body of the answer; (0, b"") if the server ended the connection without one."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        try:
            writer.write(said)
            await writer.drain()
        except ConnectionError:
            # It may have answered and closed before all was said.
            pass
        heard = await reader.read(-1)
    except ConnectionError:
        heard = b""
    finally:
        writer.close()
    head, _, body = heard.partition(b"\r\n\r\n")
    return (int(head.split(b" ", 2)[1]), body) if head.startswith(b"HTTP/1.1 ") else (0, b"")


async def dawdle(address: tuple[str, int], chance: random.Random) -> int:
    """Say nothing, or a request a byte at a time, or ask and do not read; until cut off."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        said = valid(chance)
        manner = chance.randrange(4)
        if manner == 0:
            await reader.read(1)
        elif manner == 1:
            for byte in said:
                if writer.is_closing():
                    break
                writer.write(bytes([byte]))
                await asyncio.sleep(1)
        elif manner == 2:
            writer.write(said)
            await asyncio.sleep(chance.uniform(0, 8))
        else:
            # Gone in the middle of a request.
            writer.write(said[: len(said) // 2])
        return 0
    except ConnectionError:
        return 0
    finally:
        writer.close()


async def client(address: tuple[str, int], chance: random.Random, until: float, notes: Notes) -> None:
    """One client: request after request, of any manner, until the time is over."""
    while time.monotonic() < until:
        manner = chance.choices(("valid", "malformed", "oversize", "slow"), (75, 10, 8, 7))[0]
        try:
            if manner == "slow":
                status = await asyncio.wait_for(dawdle(address, chance), 30)
            elif manner == "valid":
                status = await ask_validly(address, chance, notes)
            else:
                said = malformed(chance) if manner == "malformed" else oversize(chance)
                status, _ = await asyncio.wait_for(exchange(address, said), PATIENCE)
                if status == 200 or status >= 500:
                    notes.failures[f"{manner} got {status}"] += 1
        except (TimeoutError, OSError) as error:
            status = 0
            if manner != "slow":
                notes.failures[f"{manner}: {type(error).__name__}"] += 1
        notes.answers[manner, status] += 1


async def ask_validly(address: tuple[str, int], chance: random.Random, notes: Notes) -> int:
    began = time.monotonic()
    status, body = await asyncio.wait_for(exchange(address, valid(chance)), PATIENCE)
    notes.latencies.append(time.monotonic() - began)
    if status != 200 or not body:
        notes.failures[f"valid got {status}"] += 1
    return status
