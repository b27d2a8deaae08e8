"""A trained network is made crisp as far as its validation split bears it."""

import pytest

from ndr.data import open_split
from ndr.errors import Refusal
from ndr.models.network import build
from ndr.models.presets import PRESETS
from ndr.tasks import get_task
from ndr.train import snapping
from ndr.train.open import Opened, with_settings
from ndr.train.snapping import snap


def opened(preset: str = "ndr") -> Opened:
    task = get_task("ctl-forward")
    settings = PRESETS[preset](task)
    small = settings.model_copy(update={"width": 16, "steps": 3}) if preset == "ndr" else settings
    return Opened(preset, build(small), task, 0, ())


@pytest.mark.parametrize(
    ("gates", "matches", "chosen"),
    [
        (9.0, 9.0, ("model.update.squash=crisp", "model.update.stretch=2", "model.attention.stretch=4")),
        (0.3, 0.5, ("model.update.squash=crisp", "model.update.stretch=0.2", "model.attention.stretch=0.2")),
        (0.3, 0.0, ("model.update.squash=crisp", "model.update.stretch=0.2")),
        (0.0, 1.0, ("model.attention.stretch=1",)),
        (0.0, 0.0, ()),
    ],
)
def test_the_widest_stretches_that_lose_nothing_are_taken_gates_first(gates, matches, chosen, monkeypatch, data):
    def right(network, split):
        assert set(split.depths) == {6, 7, 8}
        update, attention = network.network.settings.update, network.network.settings.attention
        return 10 - ((update.stretch if update.squash == "crisp" else 0) > gates) - (attention.stretch > matches)

    monkeypatch.setattr(snapping, "right_of", right)
    plain = opened()
    snapped, changes = snap(plain, data)
    assert changes == chosen
    assert snapped.network.settings == with_settings(plain, chosen).network.settings


def test_no_problem_of_valid_is_lost(data):
    plain = opened()
    snapped, _ = snap(plain, data)
    valid = open_split(plain.task, "valid", folder=data)
    assert snapping.right_of(snapped, valid) >= snapping.right_of(plain, valid) > 0
    before, after = plain.network.state_dict(), snapped.network.state_dict()
    assert list(before) == list(after) and all(before[name].equal(after[name]) for name in before)


@pytest.mark.parametrize("preset", ["lstm", "rel-gate", "geom"])
def test_a_network_without_match_and_gate_is_refused(preset):
    with pytest.raises(Refusal, match="nothing to snap"):
        snap(opened(preset))


@pytest.mark.parametrize("change", ["model.update.squash=crisp", "model.attention.stretch=0.1"])
def test_a_crisp_network_is_refused(change):
    with pytest.raises(Refusal, match="crisp already"):
        snap(with_settings(opened(), [change]))
