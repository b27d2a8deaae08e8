"""The task of docs/bring-your-own-task.md trains, evaluates, answers and shows like the package's own."""

import re
from pathlib import Path

import pytest

from ndr.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "bring-your-own-task.md"


@pytest.fixture
def parity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example of the page, as a user would save it."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) < 40
    (tmp_path / "parity.py").write_text(code[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NDR_DATA", str(tmp_path / "data"))
    return "parity.py:Parity"


TINY = ["iterations=4", "evaluate_every=2", "batch=16", "model.width=8", "model.steps=2", "model.update.hidden=8"]


def test_a_task_of_your_own_goes_all_the_way(parity: str, capsys: pytest.CaptureFixture[str]):
    changes = [word for change in TINY for word in ("--set", change)]
    main(["train", "ctl-forward-ndr-small", "--task", parity, *changes, "--out", "run", "--log", "none"])
    main(["eval", "run", "--task", parity, "--split", "iid"])
    capsys.readouterr()
    main(["predict", "run", "--task", parity, "1 0 1"])
    assert capsys.readouterr().out in ("even\n", "odd\n")
    main(["figure", "run/best", "1 0 1", "--kind", "gates", "--out", "gates.png"])
    assert Path("gates.png").stat().st_size > 1_000


def test_no_file_chooses_code_to_run(parity: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(["train", "ctl-forward-ndr-small", "--set", f"task.name={parity}", "--out", "run"])
    assert stop.value.code == 2
    assert "give your own with --task" in capsys.readouterr().err


def test_operations_can_grow_only_where_the_task_says_what_they_are(parity: str, capsys: pytest.CaptureFixture[str]):
    changes = ["--set", 'curriculum={"grows": "operations"}', "--set", "sampling=by-depth"]
    with pytest.raises(SystemExit):
        main(["train", "ctl-forward-ndr-small", "--task", parity, *changes, "--out", "run", "--log", "none"])
    assert "operators" in capsys.readouterr().err
