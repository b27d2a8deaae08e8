"""Every promise of docs/reliability.md names a test that exists, and its tallies are as large as they have to be."""

import ast
import re
from pathlib import Path

import pytest

from tally import put

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text()
# The lines of the tables whose head is "promise | held by".
PROMISES = [
    line
    for table in re.findall(r"^\| promise \| held by \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    for line in table.splitlines()
]


def test_there_are_promises_of_every_kind():
    assert PAGE.count("| promise | held by |") == 5
    assert len(PROMISES) > 60


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_names_a_test(promise: str):
    held = re.fullmatch(r"\| .+ \| `(tests/[\w/]+\.py)::(test_\w+)` \|", promise)
    assert held is not None
    tree = ast.parse((ROOT / held[1]).read_text())
    assert held[2] in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def tally(name: str) -> str:
    found = re.search(f"<!-- {name} -->\n(.*?)<!-- end of {name} -->", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def numbers(row: str) -> list[int]:
    return [int(cell.replace(",", "")) for cell in re.findall(r"\|\s*\**([\d,]+)\**\s*(?=\|)", row)]


@pytest.mark.parametrize(("name", "least"), [("faults", 200), ("fuzzing", 1_000_000), ("guided fuzzing", 1_000_000)])
def test_a_tally_is_large_enough_adds_up_and_holds_no_failure(name: str, least: int):
    _, _, *rows, total = [line for line in tally(name).splitlines() if line.startswith("|")]
    assert total.startswith("| **all** |")
    first, *_, failures = numbers(total)
    assert first >= least and failures == 0
    assert first == sum(numbers(row)[0] for row in rows)
    # A row with nothing in it stands for a kind that was never tried.
    assert len(rows) > 10 and all(numbers(row)[0] > 0 for row in rows)


def test_the_load_was_as_heavy_as_promised():
    said = tally("load")
    assert "--clients 64 --seconds 60" in said
    valid = re.search(r"valid requests: ([\d,]+), errors 0, p50 [\d.]+ s, p99 [\d.]+ s", said)
    assert valid is not None and int(valid[1].replace(",", "")) > 1_000
    assert re.search(r"SIGTERM with \d+ requests in flight: .* exit code 0", said)


def test_a_tally_goes_to_its_place(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- load -->\nold\n<!-- end of load -->\nb\n")
    put("load", r"new \1", page)
    assert page.read_text() == "a\n<!-- load -->\nnew \\1\n<!-- end of load -->\nb\n"
    with pytest.raises(SystemExit):
        put("faults", "x", page)
