"""A few hostile inputs for every parser; `make fuzz` gives them a million."""

import random

import pytest

from fuzz import mutate
from fuzz.guided import Chance, guide
from fuzz.parsers import SHARES
from fuzz.runner import fuzz


@pytest.mark.parametrize("parser", SHARES)
def test_hostile_inputs_are_accepted_or_refused(parser: str):
    count = max(25, SHARES[parser] // 400)
    accepted, refused, findings = fuzz(parser, seed=1, first=0, count=count)
    assert not findings
    assert accepted + refused == count


def test_the_same_seed_gives_the_same_inputs():
    texts = [mutate.text(random.Random("1 2"), ["( 1 + 2 )"], ["(", ")"]) for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_stumble_and_a_hang_would_be_found(monkeypatch: pytest.MonkeyPatch):
    def stumble(_: object, chance: random.Random) -> None:
        if chance.random() < 0.5:
            raise KeyError("stumbled")
        while True:
            pass

    monkeypatch.setattr("fuzz.parsers.Parsers.expression", stumble)
    monkeypatch.setattr("fuzz.runner.LONGEST", 0.05)
    _, _, findings = fuzz("expression", seed=1, first=0, count=8)
    assert len(findings) == 8 and {finding.what.split(":")[0] for finding in findings} == {"KeyError", "Hang"}


def test_a_fuzzer_makes_every_choice():
    draws = [Chance(data).choice("abcdefgh") for data in (b"\x00", b"\x01", b"\x07")]
    assert draws == ["a", "b", "h"]
    assert Chance(b"").random() == Chance(b"").random()


def test_coverage_guides_and_a_stumble_would_be_found():
    pytest.importorskip("atheris", reason="Atheris is not there for this machine")
    tried, reached, finding = guide("split_name", seed=1, count=300)
    assert tried == 300 and reached > 10 and finding is None
    # No parser, but an attribute beside them: it cannot be called.
    assert "TypeError" in str(guide("folder", seed=1, count=300)[2])
