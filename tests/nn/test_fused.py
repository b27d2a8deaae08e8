"""All steps in one native call answer to the layer applied step by step."""

import math

import pytest
import torch
from torch import Tensor, nn

from ndr import native
from ndr.models.encoder import Encoder
from ndr.nn import CopyGate, CrispSigmoid, GeometricAttention, Layer, fused

pytestmark = pytest.mark.skipif(native.load("nn/steps") is None, reason="the native library was not compiled")


def make(
    width: int = 15, heads: int = 3, hidden: int = 11, *, crisp: bool = False, directional: bool = True, **rates: float
) -> Layer:
    torch.manual_seed(width)
    layer = Layer(
        GeometricAttention(
            width, heads, directional=directional, dropout=rates.get("key", 0.0), stretch=0.2 if crisp else 0.0
        ),
        CopyGate(
            width,
            hidden,
            squash=CrispSigmoid() if crisp else None,
            bias=0.3,
            dropout=rates.get("dropout", 0.0),
            gate_dropout=rates.get("gate", 0.0),
        ),
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return layer


def plain(layer: Layer, states: Tensor, padding: Tensor | None, steps: int) -> Tensor:
    for _ in range(steps):
        states, _, _ = layer(states, padding)
    return states


def suffix(lengths: list[int], columns: int) -> Tensor:
    return torch.arange(columns)[None] >= torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("crisp", [False, True])
@pytest.mark.parametrize("directional", [False, True])
@pytest.mark.parametrize(
    ("width", "heads", "columns", "lengths"),
    [
        (15, 3, 7, None),
        (15, 3, 7, [7, 1, 0, 5, 2]),
        (14, 2, 1, None),
        (14, 2, 2, None),
        (24, 3, 53, [53, 11, 52, 1, 17]),
        (32, 1, 131, None),
    ],
)
def test_equals_the_layer(
    width: int, heads: int, columns: int, lengths: list[int] | None, crisp: bool, directional: bool
) -> None:
    layer = make(width, heads, crisp=crisp, directional=directional)
    states = torch.randn(5, columns, width, requires_grad=True)
    padding = None if lengths is None else suffix(lengths, columns)
    assert fused.usable(layer, states, padding)
    real = torch.ones(5, columns, 1) if padding is None else (~padding)[..., None].float()
    seed = torch.randn(5, columns, width) * real
    inputs = [states, *layer.parameters()]
    weight = torch.randn(5, columns) * real[..., 0]
    expected, effort = states, torch.zeros(5, columns)
    for _ in range(3):
        expected, gate, _ = layer(expected, padding)
        effort = effort + gate.mean(-1)
    expected_grads = torch.autograd.grad((expected, effort), inputs, (seed, weight))
    found, _, found_effort = fused.run_steps(layer, states, padding, 3)
    assert found_effort is not None
    found_grads = torch.autograd.grad((found, found_effort), inputs, (seed, weight))
    torch.testing.assert_close(found_effort, effort * real[..., 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found * real, expected * real, rtol=1e-4, atol=1e-5)
    for one, wanted in zip(found_grads, expected_grads, strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-3, atol=1e-4 * max(1.0, float(wanted.abs().max())))
    with torch.no_grad():
        inferred = fused.run_steps(layer, states, padding, 3).states
    torch.testing.assert_close(inferred * real, found * real, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lengths", [None, [7, 3, 1, 5, 6]])
def test_columns_leave_out_the_steps_before_they_wake(lengths: list[int] | None) -> None:
    encoder = Encoder(make(), steps=5)
    states = torch.randn(5, 7, 15, requires_grad=True)
    padding = None if lengths is None else suffix(lengths, 7)
    wake = torch.randint(6, (5, 7))
    inputs = [states, *encoder.parameters()]
    found = encoder(states, padding, wake=wake)
    watch = encoder.layer.register_forward_hook(lambda *_: None)  # the native steps are for layers nobody watches
    expected = encoder(states, padding, wake=wake)
    watch.remove()
    real = torch.ones(5, 7, 1) if padding is None else (~padding)[..., None].float()
    torch.testing.assert_close(found.states * real, expected.states * real, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.effort, expected.effort, rtol=1e-4, atol=1e-5)
    grads = [
        torch.autograd.grad([(each.states.square() * real).sum(), each.effort.sum()], inputs)
        for each in (found, expected)
    ]
    for one, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-3, atol=1e-4 * max(1.0, float(wanted.abs().max())))
    same = (found.states == states).all(-1)[real[..., 0] > 0]
    assert torch.equal(same, (wake == 5)[real[..., 0] > 0]) and same.any()
    with torch.no_grad():
        still = encoder(states, padding, wake=wake, until_still=True)
    torch.testing.assert_close(still.states * real, found.states * real, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("watched", [False, True])
def test_no_sequence_is_still_while_its_columns_sleep(watched: bool) -> None:
    encoder, states = Encoder(make(), steps=5), torch.randn(2, 7, 15)
    if watched:
        encoder.layer.register_forward_hook(lambda *_: None)
    with torch.no_grad():
        found = encoder(states, wake=torch.full((2, 7), 3), until_still=True)
    assert found.steps.min() > 3 and not torch.equal(found.states, states)


def test_many_blocks_and_threads_agree() -> None:
    layer, states = make(), torch.randn(701, 3, 15)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(fused.run_steps(layer, states, None, 2).states.detach())
    finally:
        torch.set_num_threads(before)
    for each in found:
        torch.testing.assert_close(each, plain(layer, states, None, 2), rtol=1e-4, atol=1e-5)


def seeded(layer: Layer, states: Tensor, seed: int, threads: int) -> tuple[Tensor, ...]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(seed)
        output = fused.run_steps(layer, states, None, 3).states
        return output.detach(), *torch.autograd.grad(output.square().sum(), list(layer.parameters()))
    finally:
        torch.set_num_threads(before)


def test_dropout_repeats_with_the_seed_for_any_number_of_threads() -> None:
    layer = make(key=0.1, dropout=0.5, gate=0.2)
    states = torch.randn(29, 7, 15)
    first, again = seeded(layer, states, 1, 2), seeded(layer, states, 1, 2)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    # One thread draws the same numbers: only the order of sums differs.
    torch.testing.assert_close(seeded(layer, states, 1, 1)[0], first[0], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(seeded(layer, states, 2, 2)[0], first[0], atol=1e-2)


def test_gradient_with_dropout_is_the_slope() -> None:
    layer = make(key=0.2, dropout=0.3, gate=0.2)
    states = torch.randn(4, 5, 15, requires_grad=True)
    direction = torch.randn_like(states)

    def loss(moved: float) -> Tensor:
        torch.manual_seed(0)
        output = fused.run_steps(layer, states + moved * direction, None, 2).states
        return output.double().sin().sum()

    (grad,) = torch.autograd.grad(loss(0.0), states)
    slope = (loss(1e-3) - loss(-1e-3)) / 2e-3
    torch.testing.assert_close(float((grad * direction).sum()), slope.item(), rtol=0.02, atol=0.02)


def test_gate_dropout_closes_whole_columns_at_its_rate() -> None:
    layer = make(gate=0.3)
    states = torch.randn(4000, 5, 15)
    same = (fused.run_steps(layer, states, None, 1).states == states).all(-1)
    share = same.float().mean().item()
    assert abs(share - 0.3) < 5 * math.sqrt(0.3 * 0.7 / same.numel())
    # Columns and sequences are independent: neighbours agree as often as chance says.
    agree = (same[:, 1:] == same[:, :-1]).float().mean().item()
    assert abs(agree - (0.3**2 + 0.7**2)) < 0.02


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_at_its_rate_and_preserves_the_mean(rate: float) -> None:
    # An update that passes the inner values on: zero weights and a bias make every inner value 1 before dropout.
    layer = make(16, 1, 16, dropout=rate)
    update = layer.update
    assert isinstance(update, CopyGate)
    with torch.no_grad():
        update.inner.weight.zero_()
        update.inner.bias.fill_(1.0)
        update.gate.weight.copy_(torch.eye(16))
        update.gate.bias.fill_(-1.0)
        update.update.weight.zero_()
        update.update.bias.zero_()
        update.candidate.weight.zero_()  # type: ignore[union-attr,operator]
        update.candidate.bias.zero_()  # type: ignore[union-attr,operator]
    # The update is 0, so a state of 1 becomes 1 − gate, and the gate says whether its inner value was kept.
    after = fused.run_steps(layer, torch.ones(500, 8, 16), None, 1).states.detach()
    kept = 1 - after
    closed, opened = torch.tensor(-1.0).sigmoid(), torch.tensor(1 / (1 - rate) - 1.0).sigmoid()
    is_open = (kept - opened).abs() < 1e-5
    assert (is_open | ((kept - closed).abs() < 1e-5)).all()
    share = is_open.float().mean().item()
    assert abs(share - (1 - rate)) < 5 * math.sqrt(rate * (1 - rate) / is_open.numel())
    # No entry, row or pair of neighbours is favoured.
    spread = 6 * math.sqrt(rate * (1 - rate) / 4000)
    assert (is_open.float().mean((0, 1)) - (1 - rate)).abs().max() < spread
    pairs = (is_open[..., 1:] & is_open[..., :-1]).float().mean().item()
    assert abs(pairs - (1 - rate) ** 2) < 0.02


def test_padded_columns_keep_their_states_and_change_nothing() -> None:
    layer, states, padding = make(), torch.randn(3, 7, 15), suffix([7, 4, 2], 7)
    other = torch.where(padding[..., None], torch.full_like(states, 9.0), states)
    one, two = (fused.run_steps(layer, each, padding, 3).states for each in (states, other))
    assert torch.equal(one[~padding], two[~padding])
    assert torch.equal(one[padding], states[padding])


def test_second_backward_through_a_kept_graph() -> None:
    layer = make()
    parameters = list(layer.parameters())
    output = fused.run_steps(layer, torch.randn(5, 7, 15), None, 2).states.square().sum()
    first = torch.autograd.grad(output, parameters, retain_graph=True)
    fused.run_steps(layer, torch.randn(5, 7, 15), None, 2).states.sum().backward()
    second = torch.autograd.grad(output, parameters)
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))


def test_what_is_not_known_takes_the_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, states = make(), torch.randn(5, 7, 15)
    assert fused.usable(layer, states, None)
    assert not fused.usable(make().double(), states.double(), None)
    assert not fused.usable(layer, states, torch.tensor([[True] + [False] * 6] * 5)), "padding at the front"
    tanh = Layer(GeometricAttention(15, 3), CopyGate(15, 11, candidate=nn.Tanh()))
    assert not fused.usable(tanh, states, None)
    assert not fused.usable(Layer(GeometricAttention(15, 3, normalise=True), CopyGate(15, 11)), states, None)
    hooked = make()
    hooked.update.register_forward_hook(lambda *_: None)
    assert not fused.usable(hooked, states, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not fused.usable(layer, states, None)
    monkeypatch.setenv("NDR_PLAIN", "1")
    assert not fused.usable(layer, states, None)


def test_closed_gates_end_a_sequence_exactly() -> None:
    layer, states = make(16, 1, 16, crisp=True), torch.randn(5, 7, 16)
    assert isinstance(layer.update, CopyGate)
    encoder = Encoder(layer, steps=14).eval()
    with torch.no_grad():
        layer.update.gate.weight.zero_()
        layer.update.gate.bias.fill_(-9.0)
        encoded = encoder(states)
    assert torch.equal(encoded.states, states)
    assert encoded.steps.tolist() == [1] * 5


def test_until_still_stops_each_sequence_when_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = make(16, 2)
    encoder = Encoder(layer, steps=300).eval()
    states, padding = torch.randn(9, 7, 16), suffix([7, 3, 5, 1, 7, 2, 6, 4, 7], 7)
    with torch.no_grad():
        every = encoder(states, padding)
        early = encoder(states, padding, until_still=1e-4)
        sooner = encoder(states, padding, until_still=True)
        monkeypatch.setenv("NDR_PLAIN", "1")
        plainly = encoder(states, padding, until_still=1e-4)
    assert early.steps.max() < 300 and len(set(early.steps.tolist())) > 1
    assert (sooner.steps <= early.steps).all() and sooner.steps.max() < early.steps.max()
    # The plain path waits for the last of the batch.
    assert int(plainly.steps[0]) == int(early.steps.max())
    assert (early.states - every.states)[~padding].abs().max() < 0.01


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("until_still", [False, True])
# So much happens here that after five steps all columns are computed.
@pytest.mark.parametrize("steps", [4, 9])
def test_following_events_equals_computing_every_column(
    padded: bool, until_still: bool, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = make(16, 2, crisp=True)
    with torch.no_grad():
        # Some gates shut, some columns without a match: then there is something to leave out.
        layer.update.gate.bias.sub_(1.5)
        layer.attention.bias.sub_(1.0)
    states, padding = torch.randn(4, 60, 16), suffix([60, 49, 1, 57], 60) if padded else None
    real = torch.ones(4, 60, 1) if padding is None else (~padding)[..., None].float()
    found = []
    for long in (10_000, 1):
        monkeypatch.setattr(fused, "LONG", long)
        with torch.no_grad():
            found.append(Encoder(layer, steps).eval()(states, padding, until_still=until_still))
    dense, followed = found
    torch.testing.assert_close(followed.states * real, dense.states * real, rtol=1e-3, atol=1e-4)
    assert followed.steps.tolist() == dense.steps.tolist()
