"""The view's documents do what they say."""

import json
import re
from pathlib import Path

import pytest

from ndr.cli import main
from ndr.view.contract import MAX_BODY, MAX_STEPS, MAX_TEXT, MAX_WEIGHTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def demo(folders, tmp_path, monkeypatch):
    """A folder in which `ndr demo` seems to have run."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(folders["router"])
    (tmp_path / "runs" / "act").symlink_to(folders["halting"])
    monkeypatch.chdir(tmp_path)


def test_the_notebook_runs(demo, capsys):
    cells = json.loads((DOCS / "notebooks" / "look_inside.ipynb").read_text())["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            code = "".join(line for line in cell["source"] if not line.startswith("%"))
            exec(compile(code, "look_inside.ipynb", "exec"), names)
    assert "operations open exactly" in capsys.readouterr().out


def test_the_commands_of_figures_run(demo, tmp_path):
    text = (DOCS / "figures.md").read_text()
    commands = re.findall(r"^ndr (figure (?:runs/|ndr-).*?)(?:\s+#.*)?$", text, re.M)
    assert len(commands) == 6
    for command in commands:
        words = [one or two for one, two in re.findall(r'"([^"]*)"|(\S+)', command)]
        words = [re.sub(r"^500$", "20", word) for word in words]
        main([*words, *(["--samples", "20"] if "routing" in words else [])])
        assert (tmp_path / words[words.index("--out") + 1]).stat().st_size > 0


def test_the_python_of_figures_runs(demo, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "figures.md").read_text(), re.S)
    exec(compile(code, "figures.md", "exec"), {})
    assert (tmp_path / "gates.png").is_file()


def test_the_limits_are_those_of_the_program():
    text = (DOCS / "explorer.md").read_text()
    for limit in (
        f"{MAX_BODY:,} bytes",
        f"{MAX_TEXT:,} characters",
        f"{MAX_STEPS} steps",
        f"{MAX_WEIGHTS:,} attention",
    ):
        assert limit in text


def test_every_picture_is_there():
    for name in ("figures.md", "explorer.md"):
        for picture in re.findall(r"!\[.*?\]\((.*?)\)", (DOCS / name).read_text()):
            assert (DOCS / picture).is_file(), picture
