"""Hostile inputs: valid ones, damaged in the ways that parsers stumble over."""

import json
import random
from collections.abc import Callable
from typing import Any

STRANGE = [
    *(
        "",
        " ",
        "\t",
        "\n",
        "\r",
        "\x00",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
        "\ud800",
        "\udfff",
        "é",
        "٣",
        "²",
    ),
    *(
        "\U0001f600",
        "NaN",
        "Infinity",
        "-0",
        "1e999",
        "9" * 25,
        "0x1F",
        "null",
        "true",
        "None",
        "..",
        "../..",
        "/etc/passwd",
    ),
    *(
        "~",
        "$HOME",
        "%s",
        "{}",
        "{0}",
        "__class__",
        "__import__('os')",
        "C:\\",
        "file.py:Name",
        "-",
        "--",
        "=",
        ".",
        ",",
    ),
]
NUMBERS = [0, 1, -1, 2, 255, 256, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-308]
NUMBERS += [float("inf"), float("-inf"), float("nan")]


def text(chance: random.Random, valid: list[str], pieces: list[str]) -> str:
    """A valid text with a few things done to it, or pieces thrown together."""
    if chance.random() < 0.2:
        joint = chance.choice(("", " ", "  "))
        return joint.join(chance.choice(pieces) for _ in range(chance.randrange(1, 30)))
    found = chance.choice(valid)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8))):
        found = chance.choice(TEXT_MUTATIONS)(chance, found, pieces)
    return found[:20_000]


def drop(chance: random.Random, found: str, _: list[str]) -> str:
    begin = chance.randrange(len(found) + 1)
    return found[:begin] + found[begin + chance.choice((1, 1, 2, 10, 1000)) :]


def insert(chance: random.Random, found: str, pieces: list[str]) -> str:
    place = chance.randrange(len(found) + 1)
    return found[:place] + chance.choice(pieces if chance.random() < 0.6 else STRANGE) + found[place:]


def replace(chance: random.Random, found: str, pieces: list[str]) -> str:
    return insert(chance, drop(chance, found, pieces), pieces)


def double(chance: random.Random, found: str, _: list[str]) -> str:
    begin = chance.randrange(len(found) + 1)
    end = min(len(found), begin + chance.choice((1, 5, 50)))
    return found[:end] + found[begin:end] * chance.choice((1, 2, 30, 300)) + found[end:]


def nest(chance: random.Random, found: str, pieces: list[str]) -> str:
    times = chance.choice((1, 3, 50, 500))
    return chance.choice(pieces) * times + found + chance.choice(pieces) * times


def character(chance: random.Random, found: str, _: list[str]) -> str:
    place = chance.randrange(len(found) + 1)
    return found[:place] + chr(chance.choice((chance.randrange(128), chance.randrange(0x110000)))) + found[place + 1 :]


TEXT_MUTATIONS: list[Callable[[random.Random, str, list[str]], str]] = [drop, insert, replace, double, nest, character]


def content(chance: random.Random, valid: bytes) -> bytes:
    """Bytes of a valid file, damaged; most of all where its header is."""
    found = bytearray(valid)
    for _ in range(chance.choice((1, 1, 2, 3, 10))):
        place = chance.randrange(max(1, chance.choice((len(found), min(len(found), 400), min(len(found), 16)))))
        match chance.randrange(6):
            case 0:
                found[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del found[place : place + chance.choice((1, 2, 8, len(found)))]
            case 2:
                found[place:place] = chance.randbytes(chance.choice((1, 2, 8, 100)))
            case 3:
                found[place : place + 8] = chance.choice((0, 1, 2**31, 2**40, 2**63, 2**64 - 1)).to_bytes(8, "little")
            case 4:
                found[place:place] = chance.choice((b"[", b"{", b'"', b"-", b"99999999999", b"\xff", b"e9"))
            case 5:
                digits = [at for at, byte in enumerate(found[:4000]) if 48 <= byte <= 57]
                if digits:
                    found[chance.choice(digits)] = 48 + chance.randrange(10)
    return bytes(found)


def value(chance: random.Random, deep: int = 0) -> Any:
    """Anything that JSON can hold."""
    match chance.randrange(8 if deep < 3 else 5):
        case 0:
            return chance.choice(NUMBERS)
        case 1:
            return chance.choice(STRANGE)
        case 2:
            return chance.choice((None, True, False))
        case 3:
            return chance.randrange(-3, 2000)
        case 4:
            return "".join(chance.choice(STRANGE) for _ in range(chance.randrange(4)))
        case 5:
            return [value(chance, deep + 1) for _ in range(chance.randrange(4))]
        case 6:
            return {chance.choice(STRANGE): value(chance, deep + 1) for _ in range(chance.randrange(4))}
        case _:
            nested: Any = 0
            for _ in range(chance.choice((5, 50, 400))):
                nested = [nested] if chance.random() < 0.5 else {"a": nested}
            return nested


def record(chance: random.Random, valid: Any) -> Any:
    """A valid record with a few of its values, keys or parts changed."""
    found = json.loads(json.dumps(valid))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = found
        while isinstance(place, (dict, list)) and place:
            key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
            if not isinstance(place[key], (dict, list)) or not place[key] or chance.random() < 0.3:
                change(chance, place, key)
                break
            place = place[key]
    return found


def change(chance: random.Random, place: Any, key: Any) -> None:
    if chance.random() < 0.15:
        del place[key]
    elif chance.random() < 0.2 and isinstance(place, dict):
        place[str(key) + chance.choice(("", "s", "_", "\x00"))] = value(chance)
    else:
        place[key] = value(chance)
