import json
from pathlib import Path

import pytest
import torch

from ndr.bench import Measure, attention, report, training
from ndr.bench.commands import bench
from ndr.bench.measure import side_by_side
from ndr.errors import Refusal

TINY = training.Size("tiny", 3, 5, 8, 16, 2, 2)


def test_a_ratio_is_the_yardstick_over_the_value() -> None:
    assert Measure("a", 2.0, "ms", {"limit": 1.0, "other": 6.0}).ratios == {"limit": 0.5, "other": 3.0}


def test_calls_take_turns() -> None:
    order: list[str] = []
    times = side_by_side({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == ["a", "a", "b", "b", "a", "b", "a", "b"]
    assert set(times) == {"a", "b"}


def test_training_is_measured_beside_all_yardsticks() -> None:
    measure = training.measure_training(TINY, rounds=1)
    assert set(measure.ratios) == {"limit", "plain torch", "TransformerEncoderLayer"}
    assert all(ratio > 0 for ratio in measure.ratios.values())


def test_flop_counts_what_torch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    step = training.training_step(TINY)
    with training.plain_torch(), FlopCounterMode(display=False) as counter:
        step()
    counted = counter.get_total_flops()
    # Torch also counts the readout, and leaves out the gradient of nothing.
    assert counted == pytest.approx(training.flop(TINY), rel=0.1)


def test_attention_is_measured_beside_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "ROWS", 64)
    assert set(attention.measure_attention(16, rounds=1).ratios) == {"reference", "scaled_dot_product_attention"}


def test_json_page_and_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    source = tmp_path / "run.json"
    points = [Measure(f"scaling: steps = {n}", float(n), "ms") for n in (1, 2)]
    report.write_json([Measure("training step: x", 2.0, "ms", {"limit": 1.0}, "why"), *points], source)
    found = json.loads(source.read_text())
    assert found[0]["ratios"]["limit"] == 0.5 and found[0]["unit"] == "ms"
    bench(from_json=source, page=tmp_path / "page.md", plots=tmp_path / "plots")
    assert "training step: x" in capsys.readouterr().out
    page = (tmp_path / "page.md").read_text()
    assert "| training step: x | 2 ms | limit 1: **0.50** | why |" in page and "- steps — 1: 1 ms, 2: 2 ms" in page
    assert (tmp_path / "plots" / "scaling-steps.png").stat().st_size > 1000


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    measure = {"name": "x", "value": 1.0, "unit": "ms", "yardsticks": {}, "note": ""}
    strange = [{"value": "fast"}, {"value": 0}, {"yardsticks": {"limit": None}}, {"name": 3}]
    for said in ({"a": 1}, [3], *([measure | each] for each in strange)):
        (tmp_path / "run.json").write_text(json.dumps(said))
        with pytest.raises(Refusal, match="holds no measures"):
            bench(from_json=tmp_path / "run.json")


def test_threads_are_left_as_they_were() -> None:
    from ndr.bench.scaling import measure_threads

    before = torch.get_num_threads()
    assert measure_threads(1, TINY)[0].name == "scaling: threads = 1"
    assert torch.get_num_threads() == before
