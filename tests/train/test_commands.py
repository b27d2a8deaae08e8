"""The commands, as a person uses them."""

import io
import json
from pathlib import Path

import pytest

from ndr.cli import main
from ndr.train import Recipe, train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    from ndr.train import load_recipe

    recipe: Recipe = load_recipe(
        "ctl-forward-ndr-small",
        ["iterations=4", "evaluate_every=2", "batch=16", "model.width=8", "model.steps=2", "model.update.hidden=8"],
    )
    out = tmp_path_factory.mktemp("runs") / "run"
    train(recipe, 0, out, data=data, loggers=())
    return out


def test_predict_answers_line_by_line_and_says_what_is_wrong(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdin", io.StringIO("101 d a b\n101 x\n\n000 a\n"))
    with pytest.raises(SystemExit) as stop:
        main(["predict", str(run)])
    assert stop.value.code == 1
    printed = capsys.readouterr()
    answers = printed.out.splitlines()
    assert [answer == "?" for answer in answers] == [False, True, True, False]
    assert printed.err.splitlines() == ['line 2: unknown symbol "x" at 4', "line 3: empty input at 0"]


def test_predict_agrees_with_the_network_whatever_the_batch(run: Path, capsys: pytest.CaptureFixture[str]):
    from ndr.train import open_network

    texts = ["101 d a b", "000 a", "111 a b c d e", "010 i h", "101 d a"]
    main(["predict", str(run), *texts])
    assert capsys.readouterr().out.split() == [open_network(run).network.answer([text])[0] for text in texts]


def test_predict_takes_as_many_steps_as_deep_texts_need(capsys: pytest.CaptureFixture[str]):
    from ndr.tasks import get_task

    task = get_task("listops")
    texts = ["[MAX 2 9 ]", "[SM 7 " * 41 + "5" + " ]" * 41]
    right = [task.evaluate(text) for text in texts]
    main(["predict", "ndr-listops-crisp-small", "--steps", "auto", *texts])
    assert capsys.readouterr().out.split() == right
    main(["predict", "ndr-listops-crisp-small", "--steps", "7", *texts])
    shallow, deep = capsys.readouterr().out.split()
    assert shallow == right[0] and deep != right[1]


def test_eval_prints_one_json_object(run: Path, data: Path, capsys: pytest.CaptureFixture[str]):
    main(["eval", str(run), "--depths", "7,12", "--count", "11", "--steps", "auto", "--json", "--data", str(data)])
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"7", "12"}
    assert all(set(each) == {"accuracy", "count", "steps"} and each["count"] == 11 for each in found.values())


def test_eval_can_change_a_setting_but_no_weight(run: Path, data: Path, capsys: pytest.CaptureFixture[str]):
    from ndr.train import open_network
    from ndr.train.open import with_settings

    opened = open_network(run)
    changed = with_settings(opened, ["model.update.squash=crisp", "model.update.stretch=0.3", "model.test_steps=5"])
    before, after = opened.network.state_dict(), changed.network.state_dict()
    assert list(before) == list(after) and all(before[name].equal(after[name]) for name in before)
    assert opened.network.settings.update.squash == "sigmoid"
    assert (changed.network.settings.update.squash, changed.network.settings.update.stretch) == ("crisp", 0.3)
    gates = [each.network.trace("101 d a b").gate for each in (opened, changed)]
    assert gates[0].min() > 0 and gates[1].shape[0] == 5
    # A gate of x is now 1.6 x - 0.3, or nothing.
    assert gates[1][0].equal((1.6 * gates[0][0] - 0.3).clamp(0, 1))
    main(["eval", str(run), "--set", "model.test_steps=5", "--json", "--count", "3", "--data", str(data)])
    assert {each["steps"] for each in json.loads(capsys.readouterr().out).values()} == {5}


def test_eval_snaps_and_says_how_far(run: Path, data: Path, capsys: pytest.CaptureFixture[str]):
    main(["eval", str(run), "--snap", "--json", "--depths", "6", "--count", "3", "--data", str(data)])
    printed = capsys.readouterr()
    assert set(json.loads(printed.out)) == {"6"} and "snapped: " in printed.err


def test_eval_writes_table_and_picture(run: Path, data: Path, tmp_path: Path):
    csv, plot = tmp_path / "far.csv", tmp_path / "far.png"
    words = ["--depths", "6-8", "--count", "5", "--data", str(data), "--csv", str(csv), "--plot", str(plot)]
    main(["eval", str(run), *words])
    assert [line.split(",")[0] for line in csv.read_text().splitlines()] == ["depth", "6", "7", "8"]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_eval_says_what_has_changed_since_the_run(run: Path, data: Path, capsys: pytest.CaptureFixture[str]):
    versions = run / "versions.json"
    then = versions.read_text()
    older = json.dumps(json.loads(then) | {"torch": "1.9.0"})
    for now, said in ((older, "torch 1.9.0 then"), ("{", "unknown, its versions.json is damaged")):
        versions.write_text(now)
        main(["eval", str(run), "--depths", "6", "--count", "5", "--data", str(data)])
        assert f"made with another version: {said}" in capsys.readouterr().err
    versions.write_text(then)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["eval", "RUN", "--depths", "x"], '"x" is not a depth'),
        (["eval", "RUN", "--steps", "0"], "between 1 and 1,000,000"),
        (["eval", "RUN", "--split", "tset"], 'did you mean "test"'),
        (["eval", "RUN", "--depths", "6", "--count", "0"], "at least one sample"),
        (["eval", "RUN", "--plot", "far.bmp"], "must end in .png"),
        (["eval", "RUN", "--csv", "nowhere/far.csv"], 'there is no folder "nowhere"'),
        (["data", "stats", "ctl-forward", "--out", "a.bmp"], "must end in .png"),
        (["data", "export", "ctl-forward", "--out", "nowhere/a.csv"], 'there is no folder "nowhere"'),
        (["eval", "RUN", "--set", "iterations=3"], "only the model of a trained network can be changed"),
        (["eval", "RUN", "--set", "model.update.sqash=crisp"], 'did you mean "squash"'),
        (["eval", "RUN", "--set", "model.update.squash=soft"], "model.update.squash"),
        (["eval", "RUN", "--set", "model.width=1000000"], "has other weights than"),
        (["eval", "ndr-ctl-forward-small", "--snap"], "crisp already: leave --snap out"),
        (["predict", "nowhere", "101 a"], 'there is no folder "nowhere"'),
        (["predict", "RUN", "--steps", "many", "101 a"], 'or auto, not "many"'),
        (["train", "ctl-forward-ndr-small", "--data", "/dev/null/x"], "/dev/null/x"),
        (["train", "nothing"], 'there is no recipe or file "nothing"'),
        (["train", "ctl-forward-ndr-small", "--log", "tensorbord"], 'did you mean "tensorboard"'),
    ],
)
def test_bad_input_gets_one_sentence(
    words: list[str],
    sentence: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main([str(run) if word == "RUN" else word for word in words])
    assert stop.value.code == 2
    error = capsys.readouterr().err.strip()
    assert sentence in error
    assert "\n" not in error
