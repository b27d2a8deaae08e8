"""The folder a network lives in."""

import json
import struct
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from ndr.errors import Refusal
from ndr.models import (
    DNC,
    CopyGated,
    DNCSettings,
    Geometric,
    NeuralDataRouter,
    Recurrent,
    RecurrentSettings,
    RouterSettings,
    load,
)
from ndr.models.network import SHIPPED, build

WORDS = {"task": "mine", "tokens": ("a", "b", "cd"), "answers": ("x", "y")}
KINDS = {
    NeuralDataRouter: RouterSettings(
        **WORDS, width=15, steps=3, test_steps=5, attention=Geometric(heads=3), update=CopyGated(hidden=7)
    ),
    Recurrent: RecurrentSettings(**WORDS, hidden=14, embedding=5, bidirectional=True, readout="paper"),
    DNC: DNCSettings(**WORDS, hidden=7, embedding=5, cells=11, reads=3),
}


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    build(KINDS[NeuralDataRouter]).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_is_unpickled(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.loads", refuse)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind, tmp_path):
    torch.manual_seed(0)
    network = build(KINDS[kind]).eval()
    assert type(network) is kind
    network.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    for again in (kind.from_pretrained(tmp_path), kind.from_pretrained(str(tmp_path)), load(tmp_path)):
        assert type(again) is kind
        assert again.settings == KINDS[kind]
        assert not again.training
        tokens, lengths = torch.tensor([[0, 1, 2], [1, 0, 0]]), torch.tensor([3, 1])
        assert again(tokens, lengths).equal(network(tokens, lengths))
        assert again.answer(["a cd", "b"]) == network.answer(["a cd", "b"])
        # It can go on learning.
        again.train()(tokens, lengths).sum().backward()
        assert all(parameter.grad is not None for parameter in again.parameters())


def test_saving_again_from_a_loaded_network(folder, tmp_path):
    load(folder).save_pretrained(tmp_path / "copy")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()


def test_the_config_is_plain_json(folder):
    data = json.loads((folder / "config.json").read_text())
    assert RouterSettings.model_validate(data["settings"]) == KINDS[NeuralDataRouter]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions_are_kept(dtype, tmp_path):
    build(KINDS[NeuralDataRouter]).to(dtype).save_pretrained(tmp_path)
    assert load(tmp_path).output.weight.dtype == dtype


def one_sentence(refused):
    assert "\n" not in str(refused.value).strip()


def test_a_checkpoint_of_another_architecture(folder):
    with pytest.raises(Refusal, match=r'holds a network of kind "router", not "dnc"; use ndr.models.load') as refused:
        DNC.from_pretrained(folder)
    one_sentence(refused)


def change(folder, **settings):
    data = json.loads((folder / "config.json").read_text())
    data["settings"].update(settings)
    (folder / "config.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    "settings", [{"width": 30}, {"tokens": ["a"]}, {"halting": "A"}, {"attention": {"kind": "absolute", "heads": 3}}]
)
def test_weights_of_another_network(folder, settings):
    change(folder, **settings)
    with pytest.raises(Refusal, match=r"holds the weights of another network: .* differs") as refused:
        load(folder)
    one_sentence(refused)


@pytest.mark.parametrize(
    "settings", [{"width": 10**12}, {"kind": "gpt"}, {"stepps": 3}, {"tokens": [""]}, {"steps": -1}]
)
def test_settings_that_make_no_sense(folder, settings):
    change(folder, **settings)
    with pytest.raises(Refusal, match="does not describe a network of this version of ndr") as refused:
        load(folder)
    one_sentence(refused)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"settings": 3}', "[" * 100_000, "\x00\xff"])
def test_damaged_settings(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(Refusal, match="does not describe a network"):
        load(folder)


def test_missing_parts(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    with pytest.raises(Refusal, match=r"model.safetensors is missing"):
        load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(Refusal, match=r"holds no network: there is no config.json"):
        load(folder)
    with pytest.raises(Refusal, match='there is no folder "nowhere" and no shipped network of this name'):
        load("nowhere")
    with pytest.raises(Refusal, match='there is no folder "nowhere" and no shipped network of this name'):
        NeuralDataRouter.from_pretrained("nowhere")
    with pytest.raises(TypeError, match="stric"):
        NeuralDataRouter.from_pretrained(folder, stric=True)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_weights(folder, keep):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(Refusal, match="is damaged") as refused:
        load(folder)
    one_sentence(refused)


def test_noise_instead_of_weights(folder):
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 50)
    with pytest.raises(Refusal, match="is damaged"):
        load(folder)


def header(folder, edit):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    text = json.dumps(edit(json.loads(data[8 : 8 + size]))).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def test_a_header_that_promises_too_much(folder):
    def inflate(names):
        names["embedding.weight"]["shape"] = [10**9, 10**9]
        return names

    header(folder, inflate)
    with pytest.raises(Refusal, match=r"is damaged|another network"):
        load(folder)


def test_a_header_longer_than_the_file(folder):
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 2**60) + path.read_bytes()[8:])
    with pytest.raises(Refusal, match="is damaged"):
        load(folder)


def test_numbers_that_are_not_floats(folder):
    path = folder / "model.safetensors"
    save_file({name: value.long() for name, value in load_file(path).items()}, path)
    with pytest.raises(Refusal, match="holds numbers of kind I64; one kind of float is needed"):
        load(folder)


def test_the_hub_is_asked_for_settings_and_weights_only(folder, monkeypatch):
    asked = {}

    def snapshot(name, *, allow_patterns, **options):
        asked.update(options, name=name, patterns=allow_patterns)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    network = NeuralDataRouter.from_pretrained("somebody/router", revision="v1")
    assert network.settings == KINDS[NeuralDataRouter]
    assert asked["name"] == "somebody/router"
    assert asked["revision"] == "v1"
    assert asked["patterns"] == ["config.json", "model.safetensors"]


def test_the_hub_is_given_the_folder(monkeypatch):
    given = {}

    class Hub:
        def __init__(self, token):
            given["token"] = token

        def create_repo(self, name, *, private, exist_ok):
            given.update(private=private, exist_ok=exist_ok)
            return SimpleNamespace(repo_id=f"me/{name}")

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            given.update(name=repo_id, files=sorted(path.name for path in folder_path.iterdir()), why=commit_message)
            given["again"] = load(folder_path).settings
            return "https://hub/commit"

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    network = build(KINDS[NeuralDataRouter])
    assert network.push_to_hub("router", private=True, token="t", commit_message="better") == "https://hub/commit"
    assert given == {
        "token": "t",
        "private": True,
        "exist_ok": True,
        "name": "me/router",
        "files": ["README.md", "config.json", "model.safetensors"],
        "why": "better",
        "again": KINDS[NeuralDataRouter],
    }


def test_saving_keeps_a_readme_and_replaces_the_rest(folder):
    (folder / "README.md").write_text("mine")
    build(KINDS[DNC]).save_pretrained(folder)
    assert (folder / "README.md").read_text() == "mine"
    assert load(folder).settings == KINDS[DNC]


def test_a_hub_that_does_not_answer(monkeypatch):
    def snapshot(*_, **__):
        raise FileNotFoundError("no connection\nand a long story")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    with pytest.raises(Refusal, match=r"the hub did not give it: no connection$") as refused:
        NeuralDataRouter.from_pretrained("somebody/router")
    one_sentence(refused)


def test_shipped_networks_load():
    for path in sorted(SHIPPED.glob("*/")) if SHIPPED.is_dir() else []:
        assert load(path.name).settings.tokens
