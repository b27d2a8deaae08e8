import subprocess
import sys

import pytest

from ndr import __version__
from ndr.cli import COMMANDS, main
from ndr.errors import Refusal, nearest, require


def ndr(*words):
    return subprocess.run([sys.executable, "-m", "ndr", *words], capture_output=True, text=True, timeout=120)


def test_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"ndr {__version__}\n"


def test_version_from_the_shell():
    run = ndr("--version")
    assert (run.returncode, run.stdout, run.stderr) == (0, f"ndr {__version__}\n", "")


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_names_every_command(word, capsys):
    with pytest.raises(SystemExit) as left:
        main([word])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for name, (_, _, what) in COMMANDS.items():
        assert name in shown
        assert what in shown


def test_no_words_show_the_usage_and_fail(capsys):
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    assert capsys.readouterr().out.startswith("usage: ndr COMMAND")


def test_an_unknown_command_gets_one_sentence(capsys):
    with pytest.raises(SystemExit) as left:
        main(["dta"])
    assert left.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == 'ndr: there is no command "dta" (did you mean "data"?); ndr --help lists them\n'


def test_nearest_stays_silent_without_a_likely_word():
    assert nearest("zzz", ["steps", "heads"]) == ""
    assert nearest("step", ["steps", "heads"]) == ' (did you mean "steps"?)'


def test_a_missing_extra_says_which_install_mends_it():
    with pytest.raises(Refusal, match=r"this needs no_such_module; install it with: pip install 'ndr\[view\]'"):
        require("no_such_module.part", "view")
    assert require("json", "view").dumps([1]) == "[1]"
