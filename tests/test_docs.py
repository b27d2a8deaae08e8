"""Documents are tested: code runs, names exist, links lead somewhere."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def resolve(name: str) -> tuple[object, Path]:
    """The object behind a dotted name, and the file of its module."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = module = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found, Path(module.__file__)
    raise AssertionError(f"there is no {name}")


def test_library_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "library.md").read_text(), re.DOTALL)
    assert len(blocks) > 8
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/library.md, block {number}", "exec"), namespace)


ROWS = re.findall(r"^\| (\d+) \|[^|]*\| (.*) \|$", (DOCS / "equations.md").read_text(), re.MULTILINE)


def test_every_equation_has_its_row():
    assert [int(number) for number, _ in ROWS] == list(range(1, 18))


@pytest.mark.parametrize(("number", "where"), ROWS)
def test_equations_are_where_the_map_says(number, where):
    names = re.findall(r"`(ndr\.[\w.]+)`", where)
    assert names
    marked = False
    for name in names:
        found, path = resolve(name)
        assert callable(found)
        spans = re.findall(r"Eqs?\. (\d+)(?:(?:-| and )(\d+))?", path.read_text())
        marked |= any(int(low) <= int(number) <= int(high or low) for low, high in spans)
    assert marked, f"no file of {names} carries Eq. {number}"


@pytest.mark.parametrize("document", ["equations.md", "deviations.md", "library.md", "architecture.md"])
def test_dotted_names_exist(document):
    for name in re.findall(r"`(ndr\.(?:ops|nn|models|data|tasks|errors|native)[\w.]*)`", (DOCS / document).read_text()):
        resolve(name)


@pytest.mark.parametrize(
    "document", sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *DOCS.glob("*.md")])
)
def test_links_lead_to_files(document):
    path = ROOT / document
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose):
        if not re.match(r"[a-z]+:", target):
            assert (path.parent / target).exists(), f"{document}: {target}"


def test_the_version_is_in_the_changelog():
    from ndr import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
