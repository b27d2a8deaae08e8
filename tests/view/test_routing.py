import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_networks import LISTOPS

from ndr.errors import Refusal
from ndr.models.trace import Trace
from ndr.tasks import get_task
from ndr.view import plot_routing, read_routing
from ndr.view.routing import HeadLink, RoutingReport, Timing, draw_samples, lags_of, opening_steps
from ndr.view.tree import tree_of

LISTOPS_TASK = get_task("listops")


class Staged:
    """Stands in for a network: gates and attention are written by hand."""

    settings = SimpleNamespace(update=SimpleNamespace(kind="copy-gate"))

    def __init__(self, opens, heads=2, steps=12):
        self.opens, self.heads, self.steps = opens, heads, steps

    def trace(self, text, *, steps=None):
        tree = tree_of(LISTOPS_TASK, text)
        columns = ("B", *LISTOPS_TASK.tokenize(text), "E")
        gate = torch.full((self.steps, len(columns), 4), 0.02)
        attention = torch.zeros(self.steps, self.heads, len(columns), len(columns))
        for vertex in tree:
            if not vertex.is_operation:
                continue
            step = self.opens(vertex)
            gate[step:, vertex.column] = 0.8
            for child in vertex.children:
                attention[step, 1, vertex.column, tree[child].column] = 1 / len(vertex.children)
                attention[0, 0, tree[child].column, vertex.column] = 1.0
        nothing = torch.zeros(self.steps + 1, len(columns), 10)
        return Trace(text, columns, tree[0].value, 0, tuple("0123456789"), nothing, attention, gate, None, nothing)


TEXTS = draw_samples(LISTOPS_TASK, 30, (2, 3, 4), seed=1)


def test_an_ideal_router_scores_one():
    report = read_routing(Staged(lambda vertex: vertex.height - 1), LISTOPS_TASK, TEXTS)
    assert report.every.exact == report.every.score == report.every.ordered == 1.0
    assert report.every.lags == {0: 1.0} and report.right == 1.0
    assert report.every.chance < 0.8 and report.every.p == pytest.approx(1 / 101)
    assert report.collecting_head.head == 1 and report.collecting_head.collects == pytest.approx(1.0)
    assert report.marking_head.head == 0 and report.marking_head.marks == pytest.approx(1.0)
    assert report.collecting_head.collects_chance < 0.3


def test_two_steps_for_each_operation_are_late_by_one_above_the_leaves():
    report = read_routing(Staged(lambda vertex: 2 * (vertex.height - 1)), LISTOPS_TASK, TEXTS)
    assert set(report.every.lags) <= {0, 1, 2, 3, 4, 5} and report.every.ordered == 1.0
    leaves = sum(v.height == 1 for text in TEXTS for v in tree_of(LISTOPS_TASK, text))
    assert report.every.exact == pytest.approx(leaves / report.every.operations)


def test_opening_at_random_scores_about_zero():
    generator = np.random.default_rng(3)
    report = read_routing(Staged(lambda _: int(generator.integers(0, 6))), LISTOPS_TASK, TEXTS)
    assert abs(report.every.score) < 0.12 and report.every.p > 0.01
    assert abs(report.every.ordered - report.every.ordered_chance) < 0.15


def test_needed_operations_do_not_wait_for_the_others():
    # MIN needs only its 1; it may open at once although MAX is still computing.
    early = {"[MAX": 3, "[MIN": 0, "[MED": 1, "[SM": 2}
    report = read_routing(Staged(lambda vertex: early[vertex.label]), LISTOPS_TASK, [LISTOPS])
    assert report.needed.operations == 4 and report.needed.exact == 0.75 and report.every.exact < 0.5


def test_lags_by_hand():
    # 0 waits for 1 and 2, 2 waits for 3.
    waiting = [(0, [1, 2]), (1, []), (2, [3]), (3, [])]
    assert lags_of(np.array([3, 0, 1, 0]), waiting) == ([1, 0, 0, 0], [True, True, True])
    assert lags_of(np.array([0, 2, -1, 0]), waiting) == ([None, 2, None, 0], [False, False, False])


def test_opening_is_half_of_the_most(trace):
    gate = torch.tensor([[0.0, 0.3, 0.05], [0.39, 0.3, 0.02], [0.8, 0.2, 0.0], [0.7, 0.1, 0.0]])[..., None]
    staged = SimpleNamespace(openness=gate.mean(-1))
    assert opening_steps(staged).tolist() == [2, 0, -1]


def test_real_networks_give_a_report_and_a_figure(router, tmp_path):
    task = get_task("ctl-forward")
    texts = draw_samples(task, 12, (2, 3), seed=0)
    report = read_routing(router, task, texts, seed=5)
    assert report == read_routing(router, task, texts, seed=5)
    assert len(report.heads) == 3 and report.steps == 5 and 0 <= report.every.exact <= 1
    json.dumps(report.as_json())
    plot_routing(report, tmp_path / "routing.svg")
    assert "operations open exactly" in report.sentence()


def test_refusals(router, transformer):
    task = get_task("ctl-forward")
    with pytest.raises(Refusal, match="has none"):
        read_routing(transformer, task, ["101 d a"])
    with pytest.raises(Refusal, match="two operations"):
        read_routing(router, task, ["101 d"])
    with pytest.raises(Refusal, match="at least one sample"):
        draw_samples(task, 0, (1,), 0)


def test_a_head_below_chance_has_no_role_in_the_picture():
    link = HeadLink(head=0, collects=0.9, collects_chance=0.1, marks=0.0, marks_chance=0.2)
    timing = Timing(5, 1.0, 0.3, 1.0, 0.01, 1.0, 0.5, {0: 1.0}, {0: 0.3})
    report = RoutingReport(texts=3, right=1.0, steps=5, every=timing, needed=timing, heads=(link,))
    assert plot_routing(report).axes[1].get_title() == "head 0 collects"
    idle = replace(report, heads=(replace(link, collects=0.1),))
    assert plot_routing(idle).axes[1].get_title() == "no head is above chance"
