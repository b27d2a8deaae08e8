"""Commands, export, public files, and a user's own task from the documentation."""

import csv
import json
import re
from pathlib import Path

import pytest

from ndr.cli import main
from ndr.data import open_split
from ndr.data.public import read_listops
from ndr.errors import Refusal
from ndr.tasks import get_task
from ndr.whole import UNFINISHED

DOCUMENT = Path(__file__).parents[2] / "docs" / "bring-your-own-task.md"


def run(*words: str) -> int:
    try:
        main(["data", *words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_jsonl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "file.jsonl"
    assert run("export", "listops", "--split", "test", "--out", str(out)) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 1_000 and {row["depth"] for row in rows} == {7, 8}
    task = get_task("listops")
    for row in rows[::50]:
        assert list(row) == ["text", "answer", "depth"]
        assert (task.evaluate(row["text"]), task.depth(row["text"])) == (row["answer"], row["depth"])
        assert len(row["text"].split()) <= 50
    assert "wrote 1,000 samples" in capsys.readouterr().out


def test_csv_and_parquet_hold_the_same(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    split = open_split(get_task("ctl-backward"), "test", count=31)
    for name in ("x.csv", "x.parquet"):
        assert run("export", "ctl-backward", "--split", "test", "--count", "31", "--out", str(tmp_path / name)) == 0
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    texts = [split.text(index) for index in range(31)]
    assert [row["text"] for row in rows] == [row["text"] for row in table] == texts
    assert [int(row["depth"]) for row in rows] == [row["depth"] for row in table] == split.depths.tolist()


def test_datasets_folder(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "listops-dataset"
    for split in ("valid", "depth-10"):
        assert run("export", "listops", "--split", split, "--count", "20", "--out", str(folder)) == 0
        # What a killed export leaves behind is no split.
        (folder / "data" / f"{UNFINISHED}0badcafe-iid.parquet").touch()
    card = (folder / "README.md").read_text()
    files = dict(re.findall(r"- split: (\w+)\n\s+path: (\S+)", card))
    assert set(files) == {"valid", "depth_10"}
    for path in files.values():
        assert parquet.read_table(folder / path).column_names == ["text", "answer", "depth"]


def test_show_stats_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert run("show", "arithmetic", "--split", "iid", "--number", "3", "--start", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and get_task("arithmetic").evaluate(lines[1].split()[-1]) == lines[1].split()[1]
    picture = tmp_path / "picture.png"
    assert run("stats", "listops", "--split", "depth-2-4", "--count", "30", "--out", str(picture)) == 0
    assert picture.read_bytes().startswith(b"\x89PNG") and "commonest answer" in capsys.readouterr().out
    assert run("make", "ctl-forward", "--split", "depth-50") == 0
    printed = capsys.readouterr().out
    assert "1,000 samples" in printed and re.search(r"checksum [0-9a-f]{64}", printed)


WRONG = [
    ("show", "listop"),
    ("show", "listops", "--split", "tset"),
    ("show", "listops", "--split", "valid", "--variant", "papr"),
    ("show", "listops", "--split", "valid", "--seed", "-1"),
    ("show", "listops", "--split", "valid", "--count", "0"),
    ("show", "arithmetic", "--split", "valid", "--start", "5000"),
    ("show", "nowhere.py:Task"),
    ("show", "json:loads"),
    ("show", "arithmetic", "--split", "file:x.tsv"),
    ("export", "arithmetic", "--split", "test", "--out", "x.xlsx"),
    ("export", "arithmetic", "--split", "test", "--out", "/nowhere/at/all/x.csv"),
    ("stats", "arithmetic", "--split", "test", "--out", "/nowhere/x.png"),
]


@pytest.mark.parametrize("words", WRONG)
def test_wrong_words_give_one_sentence(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("ndr: ") and "\n" not in said and "Traceback" not in said


def test_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NDR_DATA", str(tmp_path / "file" / "below"))
    with pytest.raises(Refusal, match="NDR_DATA"):
        open_split(get_task("arithmetic"), "test")


def test_public_files(tmp_path: Path) -> None:
    plain, bracketed, arena = (tmp_path / name for name in ("plain.tsv", "original.tsv", "arena.tsv"))
    plain.write_text("6\t[MED 4 8 5 [MAX 8 4 9 ] ]\n9\t[MAX 2 9 ]\n")
    bracketed.write_text(
        "6\t( ( ( ( ( [MED 4 ) 8 ) 5 ) ( ( ( ( [MAX 8 ) 4 ) 9 ) ] ) ) ] )\n9\t( ( ( [MAX 2 ) 9 ) ] )\n"
    )
    arena.write_text("Source\tTarget\n( ( ( [MAX 2 ) 9 ) ] )\t9\n")
    first, second = read_listops(plain), open_split(get_task("listops"), f"file:{bracketed}")
    assert first.checksum == second.checksum and first.text(0) == "[MED 4 8 5 [MAX 8 4 9 ] ]"
    assert first.depths.tolist() == [1, 1] and first.answers.tolist() == [6, 9]
    assert read_listops(arena).text(0) == "[MAX 2 9 ]"
    assert first.batch([0, 1]).tokens.shape == (2, 10)
    for text, reason in (
        ("5\t[MAX 2 9 ]", "answer is 9"),
        ("no tab", "line 1"),
        ("1\t[MAX x ]", "unknown symbol"),
        ("", "no samples"),
    ):
        plain.write_text(text)
        with pytest.raises(Refusal, match=reason):
            read_listops(plain)
    with pytest.raises(Refusal):
        read_listops(tmp_path / "missing.tsv")


def test_own_task_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert blocks[0].count("\n") < 40
    Path("parity.py").write_text(blocks[0])
    for line in re.findall(r"^ndr data (.*)$", DOCUMENT.read_text(), re.M):
        assert run(*line.split()) == 0
    capsys.readouterr()
    exec(compile(blocks[1], str(DOCUMENT), "exec"), {})
    size, *text, answer = capsys.readouterr().out.split()
    assert size == "1000" and answer == ("odd" if text.count("1") % 2 else "even")

    task = get_task("parity.py:Parity")
    train, iid = (open_split(task, name) for name in ("train", "iid"))
    assert not {train.text(i) for i in range(len(train))} & {iid.text(i) for i in range(len(iid))}
    assert train.checksum == open_split(task, "train", folder=tmp_path / "again").checksum
    assert [train.task.evaluate(train.text(i)) for i in range(50)] == [train.answer(i) for i in range(50)]
    # Other code, other data: nothing stale is opened.
    Path("parity.py").write_text(blocks[0].replace("integers(0, 2", "integers(0, 1 + 1"))
    assert open_split(get_task("parity.py:Parity"), "train").folder != train.folder


def test_own_task_that_lies_about_depth(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)[0].replace("size=depth", "size=depth + 1")
    (tmp_path / "liar.py").write_text(code)
    with pytest.raises(Refusal, match=r"gave a text of depth 9"):
        open_split(get_task(f"{tmp_path / 'liar.py'}:Parity"), "train")
