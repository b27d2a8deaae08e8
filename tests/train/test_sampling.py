"""Which samples and how many steps an iteration gets."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from ndr.data import open_split
from ndr.errors import Refusal
from ndr.tasks import get_task
from ndr.train.optimise import rate_at
from ndr.train.recipe import Recipe, load_recipe
from ndr.train.sampling import ByDepth, Place, pace_at, place_at, pool_at, sizes_of, surround, wake_inside, wake_late


def recipe(*changes: str) -> Recipe:
    return load_recipe("ctl-forward-ndr-small", ["iterations=1000", *changes])


def test_steps_follow_depth_until_batches_begin_to_linger():
    chosen = recipe(
        'steps={"low": 2, "high": 3, "per_depth": 1, "linger": {"most": 9, "share": 0.5, "begin": 0.5, "sleep": 0.3}}'
    )
    early = [pace_at(chosen, 0, iteration, depth=4, length=6) for iteration in range(500)]
    late = [pace_at(chosen, 0, iteration, depth=4, length=6) for iteration in range(500, 1000)]
    assert {pace.steps for pace in early} == {6, 7} and {pace.sleep for pace in early} == {None}
    lingering = [pace for pace in late if pace.sleep is not None]
    assert 0.4 < len(lingering) / len(late) < 0.6
    assert {pace.sleep for pace in lingering} == {0.3}
    assert min(pace.steps for pace in lingering) >= 7 and max(pace.steps for pace in lingering) == 16
    assert pace_at(chosen, 0, 700, depth=4, length=6) == late[200]


def test_columns_that_are_late_wake_after_the_additional_steps():
    linger = '{"most": 9, "share": 0.5, "late": true}'
    chosen = recipe(f'steps={{"low": 3, "high": 3, "linger": {linger}}}', "phases=run")
    paces = [pace_at(chosen, 0, iteration, depth=4, length=6) for iteration in range(500)]
    assert {(pace.steps, pace.late) for pace in paces} == {(3 + late, late) for late in range(10)}
    assert {pace.sleep for pace in paces} == {None}


def test_columns_that_should_rest_do_so_in_the_additional_steps():
    chosen = recipe('steps={"low": 3, "high": 3, "linger": {"most": 9, "share": 0.5, "rest": 0.1}}', "phases=run")
    paces = [pace_at(chosen, 0, iteration, depth=4, length=6) for iteration in range(500)]
    assert {pace.steps for pace in paces} == {3} and {pace.rest for pace in paces} == set(range(10))


@pytest.mark.parametrize(("work", "sleep"), [('"late": true', None), ('"sleep": 0.4', 0.4)])
def test_columns_can_have_work_in_some_batches_and_rest_in_others(work, sleep):
    linger = f'{{"most": 9, "share": 0.6, {work}, "rest": 0.1}}'
    chosen = recipe(f'steps={{"low": 3, "high": 3, "linger": {linger}}}', "phases=run")
    paces = [pace_at(chosen, 0, iteration, depth=4, length=6) for iteration in range(1000)]
    longer, rest = ([pace for pace in paces if pace.steps > 3], [pace for pace in paces if pace.rest])
    assert 0.25 < len(longer) / len(paces) < 0.35 and 0.25 < len(rest) / len(paces) < 0.35
    assert {(pace.sleep, bool(pace.late), pace.rest) for pace in longer} == {(sleep, sleep is None, 0)}
    assert {(pace.steps, pace.sleep, pace.late) for pace in rest} == {(3, None, 0)}
    if sleep is None:
        assert all(pace.steps == 3 + pace.late for pace in longer)


def test_only_columns_with_a_gate_can_rest_and_only_late_ones_stand_inside():
    with pytest.raises(Refusal, match="late must be true"):
        recipe('steps={"low": 3, "high": 3, "linger": {"most": 9, "inside": true}}')
    with pytest.raises(Refusal, match="only columns with a copy gate can rest"):
        load_recipe("ctl-forward-rel-small", ['steps={"low": 3, "high": 3, "linger": {"most": 9, "rest": 0.1}}'])


def test_no_batch_takes_more_steps_than_the_bound():
    linger = '{"most": 9, "late": true}'
    chosen = recipe(f'steps={{"low": 2, "high": 2, "per_depth": 1, "linger": {linger}, "most": 6}}', "phases=run")
    paces = [pace_at(chosen, 0, each, depth, length=6) for each in range(300) for depth in (1, 3, 9)]
    assert {(pace.steps, pace.late) for pace in paces} == {(3, 0), (4, 1), (5, 2), (6, 3), (5, 0), (6, 1), (6, 0)}


def test_those_who_are_late_stand_side_by_side():
    wake = wake_late((2000, 6), 9, torch.device("cpu"))
    assert set(wake.flatten().tolist()) == {0, 9}
    changes = (wake.diff(prepend=torch.zeros(2000, 1), append=torch.zeros(2000, 1)) != 0).sum(1)
    assert set(changes.tolist()) == {0, 2}
    assert wake.ne(0).any(0).all() and set((wake != 0).sum(1).tolist()) == set(range(7))


def test_those_who_are_late_can_be_one_whole_list_inside():
    names = ["[MAX", "[SM", "]", *"123456789"]
    texts = ["[MAX 1 [SM 2 [MAX 3 ] 4 ] 5 ]", "[SM 1 2 3 4 5 6 7 8 9 ]", "[SM [SM 1 ] [SM 2 ] 3 4 5 ]"]
    rows = torch.tensor([[names.index(token) for token in text.split()] for text in texts])
    torch.manual_seed(0)
    wake = wake_inside(rows.repeat(200, 1), torch.tensor([0, 1]), torch.tensor([2]), 7).reshape(200, 3, -1)
    seen = [{"".join("-z"[int(step > 0)] for step in row) for row in wake[:, place].tolist()} for place in range(3)]
    assert seen == [{"--zzzzzzz--", "----zzz----"}, {"-----------"}, {"-zzz-------", "----zzz----"}]
    assert set(wake.unique().tolist()) == {0, 7}


def test_steps_can_follow_length():
    chosen = recipe('steps={"low": 4, "high": 4, "per_column": 0.5}')
    assert [pace_at(chosen, 0, 0, depth=2, length=length).steps for length in (4, 5, 20)] == [6, 6, 14]


def test_without_steps_the_model_decides():
    assert pace_at(recipe("steps=null"), 0, 5, depth=3, length=5) == (None, None, 0, 0)


def test_problems_can_grow_by_length():
    lengths = np.array([3, 3, 3, 5, 5])
    chosen = recipe("batch=8", 'curriculum={"grows": "length", "newest": 1.0}')
    sampler = ByDepth(chosen, lengths, lengths, seed=0)
    seen = {int(index) for iteration in range(50) for index in sampler.at(iteration, level=0)}
    assert seen == {0, 1, 2}
    assert {int(lengths[index]) for iteration in range(50) for index in sampler.at(iteration, level=1)} == {3, 5}


def test_a_selection_begins_after_its_share_of_the_iterations_and_is_for_routers():
    chosen = recipe("batch=5", 'selection={"pool": 3, "begin": 0.25}')
    assert [pool_at(chosen, iteration) for iteration in (0, 249, 250, 999)] == [1, 1, 3, 3]
    assert [pool_at(chosen, iteration, start=400) for iteration in (549, 550)] == [1, 3]
    lengths = np.array([3, 3, 3])
    assert len(ByDepth(chosen, lengths, lengths, seed=0).at(0, 0, times=3)) == 15
    with pytest.raises(Refusal, match="by-depth"):
        recipe("selection.pool=3", "surroundings=none", "curriculum=none", "sampling=uniform")
    with pytest.raises(Refusal, match="router"):
        load_recipe("ctl-forward-lstm-small", ["sampling=by-depth", "selection.pool=3"])


def test_what_grows_is_depth_length_or_the_number_of_operations(tmp_path: Path):
    split = open_split(get_task("listops"), "iid", folder=tmp_path)
    depths, lengths, operations = (
        sizes_of(recipe(f'curriculum={{"grows": "{grows}"}}'), split) for grows in ("depth", "length", "operations")
    )
    assert depths.tolist() == split.depths.tolist() and lengths.tolist() == split.lengths.tolist()
    counts = np.array([split.text(index).count("[") for index in range(len(split))])
    assert (operations[counts > 1] == np.minimum(counts[counts > 1], operations.max())).all()
    assert counts.max() > operations.max() and (counts >= operations.max()).mean() > 0.01
    single = operations[counts == 1]
    assert single.max() < 1 and (np.argsort(single) == np.argsort(lengths[counts == 1])).all()


@pytest.mark.parametrize(("even", "share"), [(0.0, 0.01), (0.5, 1 / 11), (1.0, 0.5)])
def test_rare_lengths_can_come_oftener(even: float, share: float):
    depths, lengths = np.ones(101, dtype=int), np.array([9] + [5] * 100)
    sampler = ByDepth(recipe("batch=1", f"even_lengths={even}"), depths, lengths, seed=0)
    rare = np.mean([lengths[sampler.at(iteration, level=0)[0]] == 9 for iteration in range(2000)])
    assert rare == pytest.approx(share, abs=0.03) and rare > 0


@pytest.mark.parametrize(("iteration", "rate"), [(0, 0.1), (9, 1.0), (400, 1.0), (500, 1.0), (750, 0.5), (1000, 0.0)])
def test_the_rate_is_held_before_it_falls(iteration: int, rate: float):
    optimiser = recipe(
        "optimiser.learning_rate=1.0", "optimiser.warm_up=10", "optimiser.decay=linear", "optimiser.hold=0.5"
    ).optimiser
    assert rate_at(iteration, 1000, optimiser) == pytest.approx(rate)


def test_phases_can_wait_for_the_end_of_the_curriculum():
    chosen = recipe(
        'steps={"low": 2, "high": 2, "linger": {"most": 3, "share": 1.0, "begin": 0.5, "sleep": 0.3}}',
        "phases=curriculum",
        "optimiser.learning_rate=1.0",
        "optimiser.hold=0.5",
    )
    waiting, begun = chosen.phases_start(None), chosen.phases_start(600)
    assert (waiting, begun, recipe("phases=run").phases_start(600)) == (1000, 600, 0)
    assert recipe("phases=curriculum", "curriculum=null").phases_start(None) == 0
    assert all(pace_at(chosen, 0, each, 1, 1, waiting).sleep is None for each in (0, 500, 999))
    assert [pace_at(chosen, 0, each, 1, 1, begun).sleep for each in (600, 799, 800, 999)] == [None, None, 0.3, 0.3]
    assert rate_at(900, 1000, chosen.optimiser, waiting) == 1.0
    assert rate_at(900, 1000, chosen.optimiser, begun) == pytest.approx(0.5)


def test_surroundings_put_random_tokens_beside_the_same_problem():
    chosen = recipe('surroundings={"ask": "last", "share": 0.5, "most": 3}')
    places = [place_at(chosen, 7, iteration) for iteration in range(400)]
    assert places == [place_at(chosen, 7, iteration) for iteration in range(400)]
    there = [place for place in places if place is not None]
    assert len(there) / len(places) == pytest.approx(0.5, abs=0.08)
    assert {place.left for place in there} == {place.right for place in there} == {0, 1, 2, 3}
    assert place_at(recipe("surroundings=null"), 7, 0) is None


def test_the_readout_at_the_other_end_is_asked_across_random_tokens():
    plain, across = (
        recipe(f'surroundings={{"ask": "first", "share": 0.4, "most": 3, "across": {most}}}') for most in (0, 5)
    )
    places = [place_at(across, 7, iteration) for iteration in range(600)]
    asked = [place for place in places if place is not None and place.ask == "readout"]
    assert len(asked) / len(places) == pytest.approx(0.3, abs=0.06)
    assert {(place.left, place.right) for place in asked} == {(0, between) for between in range(1, 6)}
    # All other batches are what they are without it.
    assert [None if place in asked else place for place in places] == [place_at(plain, 7, each) for each in range(600)]
    with pytest.raises(Refusal, match="nothing stands across"):
        recipe('surroundings={"ask": "last", "across": 5}')


@pytest.mark.parametrize(("ask", "asked"), [("first", 2), ("last", 4), ("readout", None)])
def test_the_asked_column_is_the_problems_own_or_the_readout(
    ask: Literal["first", "last", "readout"], asked: int | None
):
    tokens = torch.tensor([[90, 91, 92], [93, 94, 95]])
    surrounded, column = surround(tokens, Place(left=2, right=1, ask=ask), kinds=5)
    assert surrounded.shape == (2, 6) and column == asked
    assert surrounded[:, 2:5].equal(tokens)
    assert surrounded[:, [0, 1, 5]].max() < 5


def test_surroundings_are_for_routers_with_one_length_a_batch():
    around = 'surroundings={"ask": "last"}'
    with pytest.raises(Refusal, match="by-depth"):
        recipe(around, "sampling=uniform")
    with pytest.raises(Refusal, match="router"):
        load_recipe("ctl-forward-lstm-small", ["sampling=by-depth", around])
