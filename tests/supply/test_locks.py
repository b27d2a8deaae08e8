"""What is installed for development is named by exact version and hash, and users get ranges that it lies in."""

import json
import re
import subprocess
import sys
import tomllib

import audit
import pytest
from entries import DEVELOPMENT, read
from packaging.requirements import Requirement

LOCKS = ("development.txt", "torch.txt", "tools.txt")


def declared(root):
    """Every requirement of pyproject.toml, whichever extra it stands in, but for the project's own extras."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    return [Requirement(one) for one in listed if not one.startswith("ndr[")]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_file_is_known_by_its_hash(root, lock):
    """Except torch, whose file alone has none and says why."""
    entries = read(root / "supply" / lock)
    assert entries
    for entry in entries:
        assert bool(entry.hashes) == (entry.name != "torch"), entry.name
    assert [entry.name for entry in entries if not entry.hashes] == (["torch"] if lock == "torch.txt" else [])


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place_to_download_from(root, lock):
    assert not re.search(r"://|--(extra-)?index|--find-links| @ ", (root / "supply" / lock).read_text())


def test_users_get_ranges_and_the_lock_lies_in_them(root):
    locked = {}
    for entry in (entry for lock in DEVELOPMENT for entry in read(lock)):
        locked.setdefault(entry.name, []).append(entry.version)
    outside = {"wandb", "trackio", "sphinx", "myst-parser", "furo"}
    for requirement in declared(root):
        assert [specifier.operator for specifier in requirement.specifier] == [">="], requirement
        versions = locked.get(requirement.name, [])
        assert versions or requirement.name in outside, f"{requirement.name} is not locked: make lock"
        for version in versions:
            assert requirement.specifier.contains(version), f"{requirement} is locked at {version}: make lock"


def test_nothing_is_locked_that_nobody_asks_for():
    """Each entry is asked for by another one or by the project itself."""
    entries = [entry for lock in DEVELOPMENT for entry in read(lock)]
    names = {entry.name for entry in entries} | {"ndr"}
    for entry in entries:
        assert entry.wanted_by
        assert set(entry.wanted_by) <= names, entry.name


def test_the_bill_lists_everything_that_is_locked_and_is_the_same_every_time(root, tmp_path):
    for name in ("one.json", "two.json"):
        subprocess.run([sys.executable, root / "supply/bill.py", tmp_path / name], check=True, capture_output=True)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    bill = json.loads((tmp_path / "one.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    entries = [entry for lock in DEVELOPMENT for entry in read(lock)]
    assert [(one["name"], one["version"], len(one.get("hashes", ()))) for one in bill["components"]] == [
        (entry.name, entry.version, len(entry.hashes)) for entry in entries
    ]
    references = {one["bom-ref"] for one in bill["components"]}
    reached = {reference for one in bill["dependencies"] for reference in one["dependsOn"]}
    assert reached == references


HARMLESS = {"name": "rich", "version": "15.0.0", "vulns": []}
HARMFUL = {"name": "idna", "version": "3.20", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.21"]}]}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found and could not be audited: torch (2.13.0)"}


@pytest.mark.parametrize(
    ("dependencies", "code", "sentence"),
    [
        ([HARMLESS], 0, "a.txt: nothing is known against 1 dependencies"),
        ([HARMLESS, HARMFUL], 1, "idna 3.20: PYSEC-1, mended in 3.21"),
        (
            [HARMLESS, SKIPPED],
            2,
            "a.txt was not audited, because the vulnerability service said nothing about 1 of 2 dependencies, "
            "such as torch",
        ),
        ([], 2, "a.txt was not audited, because the vulnerability service said nothing about anything"),
    ],
)
def test_an_audit_succeeds_only_if_everything_was_looked_up(dependencies, code, sentence):
    """The answers are pip-audit's own, which exits with 0 on the third and the fourth."""
    assert audit.verdict("a.txt", json.dumps({"dependencies": dependencies, "fixes": []}), "") == (code, [sentence])


def test_a_service_out_of_reach_is_one_sentence():
    found = audit.verdict("a.txt", "", "Traceback ...\n  File ...\nConnectionError: cannot resolve the name\n")
    reason = "the vulnerability service cannot be asked: ConnectionError: cannot resolve the name"
    assert found == (2, [f"a.txt was not audited, because {reason}"])
