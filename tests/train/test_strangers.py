"""Files from strangers choose no code, no folder, and no more memory than there is."""

import ast
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from ndr.cli import main, trouble
from ndr.errors import Refusal
from ndr.scale.jobs import jobs_of_file
from ndr.train import Recipe, load_recipe, open_network, train
from ndr.train.checkpoint import read_sealed, save_checkpoint, seal, write_json
from ndr.train.folder import RunFolder
from ndr.train.loop import save_network
from ndr.train.memory import least_memory, physical_memory
from ndr.train.open import load_whole
from ndr.train.predict import lines_of
from ndr.train.report import Report

SOURCE = Path(__file__).parent.parent.parent / "src" / "ndr"
UNSAFE_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
UNSAFE_CALLS = {"eval", "exec", "compile", "torch.load", "np.load", "numpy.load", "pd.read_pickle"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_nothing_is_unpickled_or_evaluated(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & UNSAFE_MODULES
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in UNSAFE_MODULES
        elif isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in UNSAFE_CALLS, ast.unparse(node)


@pytest.mark.parametrize("name", ["../../escape", "/tmp/escape", "a/b", "..", ".", "", "a\\b", "x\x00y", "n" * 300])
def test_a_recipe_cannot_choose_its_folder(tmp_path: Path, name: str):
    data = load_recipe("ctl-forward-ndr-small").model_dump(mode="json")
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps({**data, "name": name}))
    with pytest.raises(Refusal, match="name"):
        load_recipe(file)


@pytest.mark.parametrize(
    "changes",
    [
        ["model.width=1000000", "model.update.hidden=1000000"],
        ["model.steps=1000000", "steps=null", "columns=1000000", "batch=1000000"],
    ],
)
def test_a_recipe_larger_than_the_machine_is_refused_before_memory_is_taken(
    tmp_path: Path, data: Path, changes: list[str]
):
    recipe = load_recipe("ctl-forward-ndr-small", changes)
    assert least_memory(recipe, shortest=2) > physical_memory()
    with pytest.raises(Refusal, match="needs at least"):
        train(recipe, 0, tmp_path / "run", data=data, loggers=(), accelerator="cpu")


def test_a_grid_file_cannot_ask_for_endless_runs(tmp_path: Path):
    file = tmp_path / "grid.json"
    many = {f"model.x{place}": list(range(100)) for place in range(9)}
    for asked in ({"seeds": 10**12}, {"grid": many}):
        file.write_text(json.dumps({**asked, "runs": [{"recipe": "ctl-forward-ndr-small"}]}))
        with pytest.raises(Refusal, match="more than"):
            jobs_of_file(file, None, ())


def test_files_that_are_far_too_long_are_not_read(tmp_path: Path, tiny: Recipe):
    network = saved(tmp_path / "network", tiny)
    for name, size in (("model.safetensors", 2**42), ("config.json", 2**40)):
        whole = (network / name).read_bytes()
        os.truncate(network / name, size)
        with pytest.raises(Refusal, match="more than can be opened"):
            load_whole(network)
        (network / name).write_bytes(whole)
    recipe = tmp_path / "recipe.json"
    recipe.touch()
    os.truncate(recipe, 2**40)
    with pytest.raises(Refusal, match="too long"):
        load_recipe(recipe)


def saved(folder: Path, recipe: Recipe) -> Path:
    from ndr.models.network import build

    network = build(recipe.model)
    save_network(network.settings, network.state_dict(), folder)
    return folder


def test_an_endless_line_is_cut_and_the_next_one_read():
    long = "a" * 3_000_000
    lines = list(lines_of(io.StringIO(f"one\n{long}\ntwo\n{long}")))
    assert [line[:3] for line in lines] == ["one", "aaa", "two", "aaa"] and max(map(len, lines)) < 900_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Recipe]:
    """Two finished runs of one recipe."""
    folder = tmp_path_factory.mktemp("runs")
    changes = ["model.width=8", "model.steps=2", "model.test_steps=null", "model.update.hidden=8"]
    recipe = load_recipe("ctl-forward-ndr-small", [*changes, "iterations=2", "evaluate_every=1", "batch=4"])
    for seed in (0, 1):
        train(recipe, seed, folder / str(seed), data=folder / "data", loggers=())
    return folder / "0", folder / "1", recipe


@pytest.fixture
def pair(runs: tuple[Path, Path, Recipe], tmp_path: Path) -> tuple[Path, Path, Recipe]:
    mine, other, recipe = runs
    return Path(shutil.copytree(mine, tmp_path / "mine")), other, recipe


def again(run: Path, other: Path, recipe: Recipe) -> dict:
    return train(recipe, 0, run, data=other.parent / "data", loggers=())


@pytest.mark.parametrize("name", ["last.safetensors", "result.json", "best/model.safetensors"])
def test_the_files_of_another_run_are_not_taken_for_its_own(pair: tuple[Path, Path, Recipe], name: str):
    mine, other, _ = pair
    before = again(*pair)
    if name == "last.safetensors":
        (mine / "result.json").unlink()
    whole = (mine / name).read_bytes()
    (mine / name).write_bytes((other / name).read_bytes())
    with pytest.raises(Refusal, match=r"belongs to another run.*remove"):
        again(*pair) if "best" not in name else open_network(mine)
    (mine / name).write_bytes(whole)
    result = again(*pair)
    times = {"seconds": 0, "processor_seconds": 0}
    assert {**result, **times} == {**before, **times}


def test_a_damaged_best_network_is_mended_from_the_checkpoint(pair: tuple[Path, Path, Recipe]):
    mine, _, _ = pair
    whole = {name: value.clone() for name, value in load_whole(mine / "best").state_dict().items()}
    content = bytearray((mine / "best" / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (mine / "best" / "model.safetensors").write_bytes(content)
    with pytest.raises(Refusal, match=r"damaged.*remove .*result\.json"):
        open_network(mine)
    (mine / "result.json").unlink()
    again(*pair)
    mended = open_network(mine).network.state_dict()
    assert all(torch.equal(mended[name], whole[name]) for name in whole)


def test_a_changed_digit_in_a_record_is_noticed(tmp_path: Path):
    write_json(tmp_path / "record.json", seal({"accuracy": 0.91}))
    assert read_sealed(tmp_path / "record.json") == {"accuracy": 0.91}
    text = (tmp_path / "record.json").read_text()
    (tmp_path / "record.json").write_text(text.replace("0.91", "0.97"))
    with pytest.raises(Refusal, match=r"damaged.*remove"):
        read_sealed(tmp_path / "record.json")


def test_a_run_begun_before_a_setting_existed_goes_on(tiny: Recipe, tmp_path: Path):
    folder = RunFolder(tmp_path)
    older = tiny.model_dump(mode="json")
    del older["ponder"]
    write_json(tmp_path / "recipe.json", {"recipe": older, "seed": 3})
    folder.begin(tiny, 3)
    with pytest.raises(Refusal, match="seed is 3 there, 4 here"):
        folder.begin(tiny, 4)


def test_a_whole_checkpoint_is_there_at_every_moment(tmp_path: Path, tiny: Recipe, monkeypatch: pytest.MonkeyPatch):
    folder = RunFolder(tmp_path)
    folder.begin(tiny, 0)
    for iteration in range(3):
        folder.save({"a": torch.tensor(iteration)}, {"iteration": iteration})
    moves = 0

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for allowed in range(4):
        real, moves = Path.replace, 0

        def replace(self: Path, target: Path, real=real, allowed=allowed) -> Path:
            nonlocal moves
            moves += 1
            return stop() if moves > allowed else real(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", replace)
            try:
                folder.save({"a": torch.tensor(9)}, {"iteration": 9})
            except KeyboardInterrupt:
                found = folder.restore()
                assert found is not None and found[1]["iteration"] >= 2


def test_a_checkpoint_that_does_not_fit_is_refused_in_a_sentence(pair: tuple[Path, Path, Recipe]):
    mine, _, _ = pair
    (mine / "result.json").unlink()
    mark = RunFolder(mine).mark()
    for state in ({"run": mark}, {"run": mark, "progress": {"x": 1}}, {"run": mark, "progress": 3}):
        save_checkpoint(mine / "last.safetensors", {"network.a": torch.ones(1)}, state)
        with pytest.raises(Refusal, match="do not fit this run"):
            again(*pair)


def test_progress_of_another_kind_is_refused_in_a_sentence(pair: tuple[Path, Path, Recipe]):
    mine, _, _ = pair
    (mine / "result.json").unlink()
    found = RunFolder(mine).restore()
    assert found is not None
    tensors, state = found
    state = {"run": RunFolder(mine).mark(), **state, "progress": state["progress"] | {"iteration": "x"}}
    for name in ("last", "previous"):
        save_checkpoint(mine / f"{name}.safetensors", tensors, state)
    with pytest.raises(Refusal, match="do not fit this run"):
        again(*pair)


@pytest.mark.parametrize(
    "curve", [[1], [{}], [{"iteration": 1, "loss": "low", "iid": 0, "valid": 0}], {"iteration": 3}, 7], ids=str
)
def test_a_curve_that_is_none_is_not_taken_up(tmp_path: Path, tiny: Recipe, curve: Any):
    report = Report(RunFolder(tmp_path), tiny, ())
    report.go_on_with([{"iteration": 1, "loss": 0.5, "iid": 0.25, "valid": 0.125}])
    with pytest.raises((ValueError, TypeError)):
        report.go_on_with(curve)
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] == 0.5


def test_a_recipe_names_no_code(tmp_path: Path, tiny: Recipe, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("from pathlib import Path\nPath('ran').touch()\nclass Task: pass\n")
    data = tiny.model_dump(mode="json")
    for name in ("evil.py:Task", "evil:Task", str(tmp_path / "evil.py:Task")):
        Path("recipe.json").write_text(json.dumps({**data, "task": {**data["task"], "name": name}}))
        with pytest.raises(Refusal, match="not a task of the package"):
            load_recipe("recipe.json").open_task()
        with pytest.raises(Refusal, match="not a task of the package"):
            load_recipe("ctl-forward-ndr-small", [f"task.name={name}"]).open_task()
        folder = saved(
            tmp_path / "network", tiny.model_copy(update={"model": tiny.model.model_copy(update={"task": name})})
        )
        with pytest.raises(Refusal, match="not a task of the package"):
            open_network(folder)
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device", "/x/y"), "No space left on device (/x/y)"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "not enough memory"),
    ],
)
def test_troubles_of_the_machine_become_a_sentence(monkeypatch, capsys, error: Exception, words: str):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("ndr.cli.run", fail)
    with pytest.raises(SystemExit) as left:
        main(["recipes"])
    assert left.value.code == 2 and words in capsys.readouterr().err


def test_a_fault_of_the_program_is_not_hidden(monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("ndr.cli.run", fail)
    assert trouble(RuntimeError("a bug")) is None
    with pytest.raises(RuntimeError, match="a bug"):
        main(["recipes"])
