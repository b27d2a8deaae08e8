"""Every promise of docs/reliability.md names a test that exists."""

import ast
import re
from pathlib import Path

import pytest

from tally import put

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def test_there_are_promises():
    assert len(NAMED) > 30


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_promise_names_a_test(file: str, name: str):
    tree = ast.parse((ROOT / file).read_text())
    assert not name or name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_tally_goes_to_its_place(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- load -->\nold\n<!-- end of load -->\nb\n")
    put("load", r"new \1", page)
    assert page.read_text() == "a\n<!-- load -->\nnew \\1\n<!-- end of load -->\nb\n"
    with pytest.raises(SystemExit):
        put("faults", "x", page)
