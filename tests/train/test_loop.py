"""Runs: repeatable, resumable after any kill, and refused with a sentence when they cannot go on."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ndr.errors import Refusal
from ndr.models import NeuralDataRouter
from ndr.train import Recipe, load_recipe, open_network, train
from ndr.train import recipe as recipes
from ndr.train.checkpoint import load_checkpoint
from ndr.train.folder import Holding, RunFolder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found = load_checkpoint(folder / "last.safetensors")
    assert found is not None
    return found[0]


def same(one: Path, other: Path) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def quiet(recipe: Recipe, seed: int, out: Path, data: Path) -> dict:
    return train(recipe, seed, out, data=data, loggers=())


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tiny: Recipe, tmp_path: Path, data: Path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        quiet(tiny, seed, tmp_path / name, data)
    assert same(tmp_path / "a", tmp_path / "b")
    assert not same(tmp_path / "a", tmp_path / "c")


def test_a_finished_run_returns_its_result_without_training(tiny: Recipe, tmp_path: Path, data: Path):
    first = quiet(tiny, 0, tmp_path / "run", data)
    before = (tmp_path / "run" / "last.safetensors").stat().st_mtime_ns
    assert quiet(tiny, 0, tmp_path / "run", data) == json.loads(json.dumps(first))
    assert (tmp_path / "run" / "last.safetensors").stat().st_mtime_ns == before


def test_the_result_says_what_was_reached(tiny: Recipe, tmp_path: Path, data: Path):
    result = quiet(tiny, 0, tmp_path / "run", data)
    assert result["iterations"] == 12
    assert [row["iteration"] for row in result["curve"]] == [4, 8, 12]
    assert set(result["best"]) == {"iid", "valid", "test"}
    assert set(result["best"]["test"]["depths"]) == {"9", "10"}
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"recipe.json", "versions.json", "metrics.jsonl", "best", "result.json", "curves.png"} <= names


def test_the_latest_of_equally_good_networks_is_kept(tiny: Recipe, tmp_path: Path, data: Path):
    result = quiet(tiny, 0, tmp_path / "run", data)
    valid = [row["valid"] for row in result["curve"]]
    best = max(valid)
    latest = max(row["iteration"] for row in result["curve"] if row["valid"] == best)
    assert result["best_iteration"] == latest


@pytest.mark.parametrize(
    "changes",
    [
        ["optimiser.averaging=0.9"],
        ["optimiser.kind=muon"],
        ["optimiser.kind=soap"],
        ['steps={"low": 2, "high": 4, "linger": {"most": 3, "sleep": 0.4}}'],
        ['steps={"low": 2, "high": 4, "linger": {"most": 3, "share": 0.7, "late": true}}'],
        ['steps={"low": 2, "high": 4, "linger": {"most": 3, "share": 0.7, "rest": 0.1}}'],
        ["model.attention.stretch=0.3", "sharpening={}"],
        [
            "sampling=by-depth",
            'curriculum={"solved": 0.01}',
            "phases=curriculum",
            "sharpening={}",
            "model.attention.stretch=0.3",
        ],
        ["sampling=by-depth", "columns=90", 'curriculum={"solved": 0.1}'],
        ["sampling=by-depth", 'selection={"pool": 3, "begin": 0.4}'],
        ['steps={"low": 2, "high": 4, "linger": {"most": 3, "share": 0.7, "late": true, "rest": 0.1}}'],
    ],
)
def test_stopping_between_iterations_changes_nothing(changes: list[str], tmp_path: Path, data: Path, shrink: list[str]):
    recipe = load_recipe("ctl-forward-ndr-small", [*shrink, *changes])
    quiet(recipe, 5, tmp_path / "whole", data)
    seen = 0

    def stop(row: dict) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise KeyboardInterrupt

    with pytest.raises(Refusal, match="the same command goes on"):
        train(recipe, 5, tmp_path / "halves", data=data, loggers=(), watch=stop)
    result = quiet(recipe, 5, tmp_path / "halves", data)
    assert same(tmp_path / "whole", tmp_path / "halves")
    assert [row["iteration"] for row in result["curve"]] == [4, 8, 12]


def test_the_more_open_gates_cost_after_the_work_the_more_they_shut(tmp_path: Path, data: Path, shrink: list[str]):
    opened, quick = {}, ["optimiser.learning_rate=0.02", "optimiser.warm_up=0", "optimiser.averaging=null"]
    for weight in (0.0, 100.0):
        linger = f'{{"most": 3, "share": 1.0, "rest": {weight}}}'
        changes = ["thrift=0.0", "phases=run", f'steps={{"low": 2, "high": 2, "linger": {linger}}}']
        quiet(load_recipe("ctl-forward-ndr-small", [*shrink, *quick, *changes]), 0, tmp_path / str(weight), data)
        network = open_network(tmp_path / str(weight)).network
        assert isinstance(network, NeuralDataRouter)
        opened[weight] = network.trace("101 a b", steps=5).gate[2:].mean()
    assert opened[100.0] < 0.8 * opened[0.0]


def test_a_selection_learns_from_the_samples_with_the_highest_losses(
    tmp_path: Path, data: Path, shrink: list[str], monkeypatch: pytest.MonkeyPatch
):
    plain, calls = NeuralDataRouter.classify, []

    def classify(network: NeuralDataRouter, tokens: torch.Tensor, *arguments, **options):
        classified = plain(network, tokens, *arguments, **options)
        calls.append((tokens, classified.scores.detach(), classified.scores.requires_grad))
        return classified

    monkeypatch.setattr(NeuralDataRouter, "classify", classify)
    alone = ["phases=run", "surroundings=none", "thrift=0", "batch=7", 'selection={"pool": 3, "begin": 0.5}']
    recipe = load_recipe("ctl-forward-ndr-small", [*shrink, *alone])
    quiet(recipe, 0, tmp_path, data)
    learned = [index for index, (_, _, has_gradient) in enumerate(calls) if has_gradient]
    assert len(learned) == recipe.iterations == 12
    task = recipe.open_task()
    for index in learned[6:]:
        (pool, scores, has_gradient), (chosen, _, _) = calls[index - 1], calls[index]
        assert not has_gradient and (len(pool), len(chosen)) == (21, 7)
        texts = [" ".join(recipe.model.tokens[token] for token in row) for row in pool.tolist()]
        answers = torch.tensor([recipe.model.answers.index(str(task.evaluate(text))) for text in texts])
        losses = torch.nn.functional.cross_entropy(scores, answers, reduction="none")
        hardest = losses.argsort(descending=True)[:7]
        assert sorted(pool[hardest].tolist()) == sorted(chosen.tolist())
    assert all(len(calls[index][0]) == 7 for index in learned)


def test_with_likeness_a_result_comes_to_look_like_a_token(tmp_path: Path, data: Path, shrink: list[str]):
    apart, quick = {}, ["optimiser.learning_rate=0.02", "optimiser.warm_up=0", "optimiser.averaging=null"]
    for weight in (0.0, 100.0):
        recipe = load_recipe("ctl-forward-ndr-small", [*shrink, *quick, f"likeness={weight}"])
        quiet(recipe, 0, tmp_path / str(weight), data)
        network = open_network(tmp_path / str(weight)).network
        assert isinstance(network, NeuralDataRouter)
        with torch.no_grad():
            scores, _, read = network.classify(torch.tensor([[8, 0, 1], [9, 2, 3]]))
            apart[weight] = (read - network.embed_answers(scores.argmax(-1))).norm()
    assert apart[100.0] < 0.8 * apart[0.0]


def test_a_list_inside_that_is_late_stands_amid_the_surroundings_where_the_problem_does(
    tmp_path: Path, data: Path, shrink: list[str], monkeypatch: pytest.MonkeyPatch
):
    plain, calls = NeuralDataRouter.classify, []

    def classify(network: NeuralDataRouter, tokens: torch.Tensor, *arguments, **options):
        calls.append((tokens, options.get("ask"), options.get("wake")))
        return plain(network, tokens, *arguments, **options)

    monkeypatch.setattr(NeuralDataRouter, "classify", classify)
    linger = '{"most": 3, "share": 1.0, "late": true, "inside": true}'
    changes = ["phases=run", f'steps={{"low": 2, "high": 2, "linger": {linger}}}', "selection.pool=2"]
    recipe = load_recipe("arithmetic-ndr-small", [*shrink, *changes, "curriculum=none"])
    quiet(recipe, 0, tmp_path, data)
    names, late = recipe.model.tokens, 0
    for tokens, _, wake in ((tokens, ask, wake) for tokens, ask, wake in calls if wake is not None):
        for row, steps in zip(tokens.tolist(), wake[:, 1:-1].tolist(), strict=True):
            part = "".join(names[token] for token, step in zip(row, steps, strict=True) if step)
            assert part == "" or (part[0], part[-1], part.count("(")) == ("(", ")", part.count(")"))
            late += bool(part)
    assert late > 5
    lookup = load_recipe("ctl-forward-ndr-small", [*shrink, *changes])
    with pytest.raises(Refusal, match="does not say which tokens begin and end a problem inside"):
        quiet(lookup, 0, tmp_path / "lookup", data)


def test_a_run_can_begin_with_a_trained_network(tiny: Recipe, tmp_path: Path, data: Path, shrink: list[str]):
    quiet(tiny, 0, tmp_path / "first", data)
    still = [f"start={tmp_path / 'first'}", "optimiser.learning_rate=1e-9", "model.update.squash=crisp"]
    recipe = load_recipe("ctl-forward-ndr-small", [*shrink, *still])

    def stop(row: dict) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Refusal, match="the same command goes on"):
        train(recipe, 1, tmp_path / "second", data=data, loggers=(), watch=stop)
    trained = open_network(tmp_path / "first").network.state_dict()
    (tmp_path / "first").rename(tmp_path / "gone")
    quiet(recipe, 1, tmp_path / "second", data)
    for name, weight in open_network(tmp_path / "second").network.state_dict().items():
        torch.testing.assert_close(weight, trained[name], rtol=1e-4, atol=1e-4)


def test_a_run_can_begin_with_the_run_of_another_recipe(
    tmp_path: Path, data: Path, shrink: list[str], monkeypatch: pytest.MonkeyPatch
):
    first = load_recipe("ctl-forward-ndr-small", shrink)
    shipped = {**recipes.expand_all(), "first": first.model_dump(mode="json") | {"name": "first"}}
    monkeypatch.setattr(recipes, "expand_all", lambda: shipped)
    recipe = load_recipe("ctl-forward-ndr-small", [*shrink, "start=first", "optimiser.learning_rate=1e-9"])
    told: list[int] = []
    train(recipe, 3, tmp_path / "second", data=data, loggers=(), watch=lambda row: told.append(row["iteration"]))
    assert told == [4, 8, 12, 16, 20, 24]
    assert RunFolder(tmp_path / "first-seed3").recipe()[1] == 3
    trained = open_network(tmp_path / "first-seed3").network.state_dict()
    for name, weight in open_network(tmp_path / "second").network.state_dict().items():
        torch.testing.assert_close(weight, trained[name], rtol=1e-4, atol=1e-4)
    (tmp_path / "first-seed3").rename(tmp_path / "gone")
    quiet(recipe, 3, tmp_path / "second", data)
    assert not (tmp_path / "first-seed3").exists()


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("ndr-ctl-forward-small", "other names or sizes"),
        ("ndr-listops-small", "other tokens or answers"),
        ("nowhere", "nowhere"),
    ],
)
def test_a_network_that_does_not_fit_cannot_be_begun_with(
    start: str, sentence: str, tmp_path: Path, data: Path, shrink: list[str]
):
    recipe = load_recipe("ctl-forward-ndr-small", [*shrink, f"start={start}"])
    with pytest.raises(Refusal, match=sentence):
        quiet(recipe, 0, tmp_path / "run", data)


def command(recipe: Path, out: Path, data: Path) -> subprocess.Popen:
    words = [sys.executable, "-m", "ndr", "train", str(recipe), "--seed", "7", "--out", str(out), "--data", str(data)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*words, "--log", "none"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(shrink: list[str], tmp_path: Path, data: Path):
    recipe = tmp_path / "recipe.json"
    long = load_recipe("ctl-forward-ndr-small", [*shrink, "iterations=60", "evaluate_every=3"])
    recipe.write_text(long.model_dump_json())
    command(recipe, tmp_path / "whole", data).communicate(timeout=120)
    chance = random.Random(0)
    killed = 0
    for _ in range(5):
        process = command(recipe, tmp_path / "killed", data)
        deadline = time.monotonic() + 60
        before = stamp(tmp_path / "killed")
        # Wait for a new checkpoint, so that every attempt gets on; then strike within the next few writes.
        while process.poll() is None and stamp(tmp_path / "killed") == before and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.4))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
        if (tmp_path / "killed" / "result.json").exists():
            break
    process = command(recipe, tmp_path / "killed", data)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert killed >= 2
    assert same(tmp_path / "whole", tmp_path / "killed")
    result = json.loads((tmp_path / "killed" / "result.json").read_text())
    assert [row["iteration"] for row in result["curve"]] == list(range(3, 61, 3))


def stamp(folder: Path) -> int:
    file = folder / "last.safetensors"
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def test_a_damaged_last_checkpoint_falls_back_to_the_one_before(tiny: Recipe, tmp_path: Path, data: Path):
    quiet(tiny, 5, tmp_path / "whole", data)
    out = tmp_path / "damaged"
    quiet(tiny, 5, out, data)
    (out / "result.json").unlink()
    damaged = bytearray((out / "last.safetensors").read_bytes())
    damaged[len(damaged) // 2] ^= 4
    (out / "last.safetensors").write_bytes(damaged)
    quiet(tiny, 5, out, data)
    assert same(tmp_path / "whole", out)


def test_another_recipe_is_not_mixed_into_a_folder(tiny: Recipe, tmp_path: Path, data: Path):
    quiet(tiny, 0, tmp_path / "run", data)
    other = tiny.model_copy(update={"batch": 31})
    with pytest.raises(Refusal, match="batch is 32 there, 31 here"):
        quiet(other, 0, tmp_path / "run", data)


def test_a_second_process_is_refused_and_told_who_is_there(tiny: Recipe, tmp_path: Path, data: Path):
    with Holding(tmp_path / "run"), pytest.raises(Refusal, match=f"in use by process {os.getpid()} "):
        quiet(tiny, 0, tmp_path / "run", data)


def test_a_loss_that_is_no_number_ends_in_a_sentence(shrink: list[str], tmp_path: Path, data: Path):
    wild = load_recipe("ctl-forward-ndr-small", [*shrink, "optimiser.learning_rate=1e30", "optimiser.clip=null"])
    with pytest.raises(Refusal, match="no longer a number"):
        quiet(wild, 0, tmp_path / "run", data)


def test_a_full_disk_ends_in_a_sentence_and_the_run_goes_on_later(
    tiny: Recipe, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
):
    quiet(tiny, 5, tmp_path / "whole", data)
    real, calls = os.fsync, 0

    def sometimes_full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr("os.fsync", sometimes_full)
    with pytest.raises(Refusal, match="No space left on device"):
        quiet(tiny, 5, tmp_path / "full", data)
    quiet(tiny, 5, tmp_path / "full", data)
    assert same(tmp_path / "whole", tmp_path / "full")


@pytest.mark.parametrize("row", ["lstm", "dnc", "transformer", "rel-act-a", "geom-act-u", "absrel-gate"])
def test_every_kind_of_network_trains(row: str, tmp_path: Path, data: Path):
    small = {"lstm": ["model.hidden=8"], "dnc": ["model.hidden=8", "model.cells=5"]}
    changes = small.get(row, ["model.width=8", "model.steps=3", "model.update.hidden=16"])
    changes += [*changes, "task.variant=clean", "model.variant=clean", "iterations=2", "evaluate_every=2", "batch=16"]
    recipe = load_recipe(f"ctl-backward-{row}-paper", [*changes, "milestones=[2]"])
    task = recipe.open_task()
    recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"tokens": task.tokens})})
    result = quiet(recipe, 0, tmp_path / "run", data)
    assert result["iterations"] == 2
    assert set(result["milestones"]) == {"2"}
