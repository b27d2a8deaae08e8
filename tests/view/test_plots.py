import numpy as np
import pytest
from PIL import Image
from small_networks import LISTOPS

from ndr.errors import Refusal
from ndr.view import plot
from ndr.view.plots import arrange, spread


def maps(figure):
    """The attention or gate maps of a figure, without its colour bar."""
    return [axes.images[0] for axes in figure.axes if axes.images]


def test_attention_shows_the_largest_weight_of_all_heads(trace):
    figure = plot(trace)
    assert len(maps(figure)) == trace.steps == 5
    for step, image in enumerate(maps(figure)):
        np.testing.assert_array_equal(image.get_array(), trace.attention[step].amax(0))
        assert image.get_clim() == (0, 1) and image.get_cmap().name == "viridis"
        assert image.get_interpolation() == "nearest"


def test_one_head_and_chosen_steps(trace):
    figure = plot(trace, steps=[0, 4], head=2)
    assert [axes.get_title() for axes in figure.axes if axes.images] == ["head 2, t = 0", "head 2, t = 4"]
    np.testing.assert_array_equal(maps(figure)[1].get_array(), trace.attention[4, 2])


def test_labels_are_begin_tokens_end(trace):
    axes = plot(trace, steps=0).axes[0]
    words = ["B", "101", "d", "a", "b", "E"]
    assert [label.get_text() for label in axes.get_xticklabels()] == words
    assert [label.get_text() for label in axes.get_yticklabels()] == words
    # y grows downwards: target 0 is in the first row.
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_gates_show_every_channel(trace):
    figure = plot(trace, "gates", steps=3)
    np.testing.assert_array_equal(maps(figure)[0].get_array(), trace.gate[3].T)


def test_heads_as_rows_and_as_panels(trace):
    assert len(maps(plot(trace, "heads"))) == 3 * 4
    figure = plot(trace, "heads", panels=["1@0", "0+2@3"])
    assert figure.axes[1].get_title() == "max of heads 0, 2, t = 3"
    np.testing.assert_array_equal(maps(figure)[1].get_array(), trace.attention[3, [0, 2]].amax(0))


def test_flow_names_every_readout(trace):
    figure = plot(trace, "flow")
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words[:6] == list(trace.columns)
    said = [trace.answers[one] for one in trace.logits[-1].argmax(-1).tolist()]
    assert words[-6:] == said


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_whole_and_the_same_every_time(trace, tmp_path, suffix):
    for name in ("one", "two"):
        trace.plot(kind="gates", steps=[0, 1], out=tmp_path / f"{name}.{suffix}")
    first, second = (tmp_path / f"{name}.{suffix}" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert first.read_bytes().startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"one.{suffix}", f"two.{suffix}"]


@pytest.mark.parametrize("kind", ["attention", "flow"])
def test_gif_has_a_frame_for_each_step(trace, tmp_path, kind):
    plot(trace, kind, steps=[0, 2, 4], out=tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 3


def test_mp4_needs_ffmpeg(trace, tmp_path, monkeypatch):
    monkeypatch.setattr("matplotlib.animation.FFMpegWriter.isAvailable", lambda: False)
    with pytest.raises(Refusal, match="ffmpeg"):
        plot(trace, out=tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_listops_figure_of_the_paper(listops_router, tmp_path):
    trace = listops_router.trace(LISTOPS, steps=8)
    plot(trace, "heads", panels=["2@0", "2@2", "2@3", "2@6", "0@1", "1@2", "0@6", "0+1@7"], out=tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "atention"}, 'did you mean "attention"'),
        ({"steps": 5}, "there is no step 5: this trace has steps 0 to 4"),
        ({"steps": [-1]}, "there is no step -1"),
        ({"steps": []}, "at least one step"),
        ({"head": 3}, r"there is no head 3: this network has 3 \(0 to 2\)"),
        ({"kind": "heads", "panels": ["1"]}, 'not "1"'),
        ({"kind": "heads", "panels": ["x@1"]}, 'not "x@1"'),
        ({"kind": "heads", "panels": ["9@1"]}, "no head 9"),
        ({"panels": ["1@1"]}, "panels belong to"),
        ({"out": "map.bmp"}, "must end in .png, .svg, .pdf, .gif, .mp4"),
        ({"out": "nowhere/map.png"}, 'there is no folder "nowhere"'),
        ({"kind": "heads", "out": "map.gif"}, "an animation shows"),
    ],
)
def test_refusals_say_what_to_do(trace, options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match=words):
        plot(trace, **options)
    assert not list(tmp_path.iterdir())


def test_a_network_without_gates_has_no_gate_figure(transformer, tmp_path):
    trace = transformer.trace("101 d")
    with pytest.raises(Refusal, match="no gates"):
        plot(trace, "gates")
    plot(trace, "flow", out=tmp_path / "flow.svg")
    plot(trace, out=tmp_path / "attention.gif")


def test_a_picture_that_fails_leaves_the_old_one(trace, tmp_path, monkeypatch):
    out = tmp_path / "map.png"
    out.write_bytes(b"old")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(Refusal, match="full"):
        plot(trace, out=out)
    assert out.read_bytes() == b"old" and list(tmp_path.iterdir()) == [out]


def test_panels_are_spread_evenly():
    assert arrange(12, 2.2) == (4, 3)
    assert arrange(1, 50.0) == (1, 1)
    assert arrange(14, 4.2) == (3, 5)
    assert spread(list(range(20)), 4) == [0, 6, 13, 19]
