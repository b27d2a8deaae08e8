"""Files are written whole or not at all, and read only if they can be what they should be."""

import ast
import os
from pathlib import Path

import pytest

from ndr.errors import Refusal
from ndr.whole import PICTURES, check_target, read_text, read_whole, write_whole

SOURCE = Path(__file__).parent.parent / "src" / "ndr"
# These read files of the package itself; and recipes, which have a limit of their own.
OWN = {"whole.py", "paper/experiments.py", "view/page.py", "train/recipe.py"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_file_is_read_without_asking_how_long_it_is(path: Path):
    if path.relative_to(SOURCE).as_posix() in OWN:
        return
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {func.attr for func in calls if isinstance(func, ast.Attribute)} | {ast.unparse(func) for func in calls}
    assert not names & {"read_bytes", "json.load", "tomllib.load"}
    # `read_text` of this package is a function, that of a path a method.
    assert not any(isinstance(func, ast.Attribute) and func.attr == "read_text" for func in calls)


def test_what_is_far_too_long_or_no_file_is_not_read(tmp_path: Path):
    file = tmp_path / "record.json"
    file.write_text("{}")
    assert (read_text(file), read_whole(file)) == ("{}", b"{}")
    os.truncate(file, 2**40)
    with pytest.raises(ValueError, match="far too long"):
        read_text(file)
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(ValueError, match="no file"):
            read_text(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a.pgn", r'cannot write "a\.pgn" \(did you mean "\.png"\?\): its name must end in \.png, \.svg, \.pdf'),
        ("a", "its name must end in"),
        ("missing/a.png", 'there is no folder ".*missing" to write "a.png" into'),
        ("file/a.png", 'there is no folder ".*file" to write "a.png" into'),
        ("folder.png", "is a folder; give the name of a file"),
    ],
)
def test_a_name_that_no_file_can_get_is_refused_before_the_work(tmp_path: Path, name: str, sentence: str):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match=sentence):
        check_target(tmp_path / name, PICTURES)


def test_a_file_is_not_written_where_there_is_no_folder(tmp_path: Path):
    with pytest.raises(Refusal, match="there is no folder"):
        write_whole(tmp_path / "missing" / "a.txt", b"a")
    write_whole(tmp_path / "a.txt", b"a")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
