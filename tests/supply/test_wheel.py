"""What is published is tested, not only the checkout: built twice, installed where nothing else is, and used there."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

SITE = Path(sysconfig.get_path("purelib"))
EPOCH = "1700000000"
pytestmark = pytest.mark.slow


def run(*command, cwd, umask=-1, **environment):
    """Outside the checkout: nothing of this process's surroundings leads back to it."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "NDR_"))}
    return subprocess.run(
        [str(part) for part in command],
        **{"cwd": cwd, "env": keep | environment, "umask": umask, "text": True, "timeout": 280},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture(scope="module")
def sources(root, tmp_path_factory):
    """A copy, so that both builds are of the same thing and neither touches the checkout's own libraries."""
    folder = tmp_path_factory.mktemp("sources")
    unwanted = shutil.ignore_patterns("*.so", "*.so.*", "__pycache__", "*.egg-info")
    for name in ("src", "docs", "tests", "supply"):
        shutil.copytree(root / name, folder / name, ignore=unwanted)
    for name in ("pyproject.toml", "hatch_build.py", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        shutil.copy(root / name, folder / name)
    return folder


def build(sources, folder, *what, **surroundings):
    """Copy the sources to `folder` and build them there."""
    shutil.copytree(sources, folder)
    command = (sys.executable, "-m", "build", "--no-isolation", *what)
    built = run(*command, cwd=folder, SOURCE_DATE_EPOCH=EPOCH, **surroundings)
    assert built.returncode == 0, built.stdout
    return {path.suffix: path for path in (folder / "dist").iterdir()}


@pytest.fixture(scope="module")
def published(sources, tmp_path_factory):
    """The wheel (made from the source archive, as an installer would) and the source archive."""
    return build(sources, tmp_path_factory.mktemp("published") / "checkout")


def test_two_builds_are_the_same_byte_by_byte(sources, published, tmp_path):
    """Native libraries too: in another folder, zone, language and umask, and straight from the sources."""
    strange = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7", "umask": 0o077}
    again = build(sources, tmp_path / "another" / "place", "--sdist", "--wheel", **strange)
    assert again.keys() == published.keys() == {".whl", ".gz"}
    for suffix, path in published.items():
        assert again[suffix].name == path.name
        assert again[suffix].read_bytes() == path.read_bytes(), f"{path.name} differs"


def test_what_is_inside(sources, published):
    with tarfile.open(published[".gz"]) as archive:
        archived = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(published[".whl"]) as archive:
        wheel = set(archive.namelist())
    assert {"src/ndr/nn/steps.cpp", "tests/oracle.py", "supply/development.txt", "hatch_build.py"} <= archived
    assert not {name for name in archived if name.endswith((".so", ".pyc"))}
    package = sources / "src"
    shipped = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    compiled = {re.sub(r"cpp$", "so", name) for name in shipped if name.endswith(".cpp")} & wheel
    assert {name for name in wheel if not name.startswith("ndr-")} == shipped | compiled
    assert compiled or not shutil.which("g++")


def environment(folder, wheel, dependencies):
    """An environment that holds the wheel and sees these dependencies, and nothing else."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index")
    installed = run(*pip, wheel, cwd=folder)
    assert installed.returncode == 0, installed.stdout
    site = next(folder.glob("lib/python*/site-packages"))
    # A folder that is named here is not searched for further names: the checkout's own entry stays unread.
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    return folder / "bin"


def needed(distributions, of: Distribution):
    """Everything that a distribution requires, and what that requires, here and without extras."""
    for requirement in map(Requirement, of.requires or ()):
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in distributions:
            distributions[requirement.name] = distribution(requirement.name)
            needed(distributions, distributions[requirement.name])
    return distributions


@pytest.fixture(scope="module")
def core(published, tmp_path_factory):
    """The wheel with its own requirements alone, as `pip install ndr` gives it."""
    folder = tmp_path_factory.mktemp("core")
    with zipfile.ZipFile(published[".whl"]) as archive:
        archive.extractall(folder / "unpacked")
    wheel = PathDistribution(next((folder / "unpacked").glob("*.dist-info")))
    seen = folder / "dependencies"
    seen.mkdir()
    for each in needed({}, wheel).values():
        for name in {path.parts[0] for path in each.files or ()} - {"..", "__pycache__"}:
            if not (seen / name).exists():
                (seen / name).symlink_to(SITE / name)
    return environment(folder / "environment", published[".whl"], seen)


def test_commands_need_nothing_but_the_light_core(core, tmp_path):
    def ndr(*options):
        return run(core / "ndr", *options, cwd=tmp_path, NDR_DATA=str(tmp_path / "data"), COLUMNS="200")

    assert "ctl-backward-ndr-small" in ndr("recipes").stdout
    shown = ndr("data", "show", "listops", "--split", "depth-3", "--count", "5", "--number", "2")
    assert shown.returncode == 0, shown.stdout
    assert shown.stdout.count("[") >= 6
    lacking = ndr("train", "ctl-backward-ndr-small")
    assert lacking.returncode == 2
    assert "pip install 'ndr[train]'" in lacking.stdout
    assert "Traceback" not in lacking.stdout


PROGRAM = """
import sys
from pathlib import Path
import torch
import ndr
from ndr import native
from ndr.models import NeuralDataRouter, load
from ndr.models.network import build
from ndr.models.presets import PRESETS
from ndr.tasks.registry import TASKS

home = Path(ndr.__file__).parent
assert home.is_relative_to(sys.prefix), home
for source in home.glob("*/*.cpp"):
    print(source.stem, native.load(f"{source.parent.name}/{source.stem}") is not None)
network = build(PRESETS["ndr"](TASKS["ctl-forward"]).model_copy(update={"steps": 2}))
network(torch.tensor([[1, 2, 3]])).sum().backward()
assert all(parameter.grad.isfinite().all() for parameter in network.parameters())
network.save_pretrained("saved")
assert load("saved").answer(["101 a b"]) == network.answer(["101 a b"])
"""


def test_networks_run_natively_from_the_wheel(core, tmp_path):
    found = run(core / "python", "-c", PROGRAM, cwd=tmp_path)
    assert found.returncode == 0, found.stdout
    loaded = dict(line.split() for line in found.stdout.splitlines())
    assert set(loaded) >= {"geometric", "steps", "candidates"}
    assert set(loaded.values()) == {"True" if shutil.which("g++") else "False"}


def test_attention_from_the_wheel_passes_the_tests_of_the_source_archive(published, tmp_path):
    """With every dependency in sight, and as consistent as pip wants it."""
    bin = environment(tmp_path / "environment", published[".whl"], SITE)
    with tarfile.open(published[".gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(tmp_path.glob("ndr-*"))
    # Only the tests: the sources must not be importable by chance.
    shutil.rmtree(unpacked / "src")
    some = "(brute_force and True) or one_column"
    tests = run(bin / "python", "-m", "pytest", "tests/ops/test_attention.py", "-k", some, cwd=unpacked)
    assert tests.returncode == 0, tests.stdout
    consistent = run(sys.executable, "-m", "pip", "--python", bin / "python", "check", cwd=tmp_path)
    assert consistent.returncode == 0, consistent.stdout
