import pytest
import torch

from ndr.nn import AdaptiveComputationTime


def unroll(act, states, padding=None):
    """All steps over given states [step + 1, batch, column, width]."""
    halting, weights = act.start(states[0], padding), []
    for step in range(len(states) - 1):
        halting, weight = act(halting, states[step], states[step + 1], last=step == len(states) - 2)
        weights.append(weight)
    return halting, torch.stack(weights)


def by_the_paper(act, states, variant):
    """Appendix A, one column at a time with plain numbers: weights, remainder, updates, output."""
    steps = len(states) - 1
    chances = [torch.sigmoid(states[t] @ act.halt.weight[0] + act.halt.bias[0]) for t in range(steps)]
    spent, remainder, updates, weights = 0.0, torch.zeros(()).double(), 0, []
    output = torch.zeros_like(states[0])
    for t in range(steps):
        forced = variant == "A" and t == steps - 1
        updates += 1
        halts = (spent + chances[t]).item() > 0.99 or forced
        weight = 1 - spent if halts else chances[t]
        weights.append(weight)
        output = output + weight * states[t + 1] if variant == "A" else output * (1 - weight) + weight * states[t + 1]
        if halts:
            remainder = weight + 0 * chances[t]
            break
        spent = spent + chances[t]
    weights += [0.0] * (steps - len(weights))
    return torch.tensor([float(torch.as_tensor(w).detach()) for w in weights]).double(), remainder, updates, output


def make(variant, bias=-1.0, width=5):
    torch.manual_seed(0)
    act = AdaptiveComputationTime(width, variant).double()
    torch.nn.init.constant_(act.halt.bias, bias)
    return act


@pytest.mark.parametrize("bias", [-6.0, -1.0, 0.5, 9.0])
@pytest.mark.parametrize("variant", ["A", "U"])
def test_both_variants_follow_their_recurrence(variant, bias):
    act = make(variant, bias)
    states = torch.randn(8, 2, 3, 5, dtype=torch.float64, requires_grad=True)
    halting, weights = unroll(act, states)
    outputs, remainders = [], []
    for sample in range(2):
        for column in range(3):
            expected, remainder, updates, output = by_the_paper(act, states[:, sample, column], variant)
            torch.testing.assert_close(weights[:, sample, column].detach(), expected)
            torch.testing.assert_close(halting.remainder[sample, column], remainder)
            assert halting.updates[sample, column] == updates
            torch.testing.assert_close(halting.output[sample, column], output)
            outputs.append(output.sum())
            remainders.append(remainder)
    inputs = [states, *act.parameters()]
    wanted = torch.autograd.grad(torch.stack(outputs).sum() + 3 * torch.stack(remainders).sum(), inputs)
    found = torch.autograd.grad(halting.output.sum() + 3 * halting.remainder.sum(), inputs)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("steps", [1, 2, 7, 29])
@pytest.mark.parametrize("bias", [-20.0, -3.0, 0.0, 20.0])
def test_weights_of_variant_a_sum_to_one(steps, bias, dtype):
    act = make("A", bias).to(dtype)
    halting, weights = unroll(act, torch.randn(steps + 1, 3, 7, 5).to(dtype))
    torch.testing.assert_close(weights.sum(0), torch.ones_like(weights[0]), rtol=0, atol=1e-6)
    assert halting.mass.eq(1).all()
    assert halting.updates.le(steps).all()


def test_variant_u_is_not_forced_to_stop():
    halting, weights = unroll(make("U", -6.0), torch.randn(4, 2, 3, 5, dtype=torch.float64))
    assert halting.mass.lt(1).all()
    assert halting.remainder.eq(0).all()
    torch.testing.assert_close(weights.sum(0), halting.mass)


def test_padding_starts_halted():
    act = make("A")
    states = torch.randn(6, 2, 3, 5, dtype=torch.float64)
    padding = torch.tensor([[False, False, True], [False, True, True]])
    halting, weights = unroll(act, states, padding)
    for value in (halting.remainder, halting.updates, weights.sum(0)):
        assert value[padding].eq(0).all()
        assert value[~padding].gt(0).all()
    assert halting.output[padding].eq(0).all()


def test_decision_before_weight_after():
    """The decision looks at the state before the layer; what is read is the state after it."""
    act = make("A", 0.0)
    before, after = torch.randn(2, 1, 3, 5, dtype=torch.float64)
    halting, weight = act(act.start(before, None), before, after, last=False)
    torch.testing.assert_close(weight, torch.sigmoid(act.halt(before)[..., 0]))
    torch.testing.assert_close(halting.output, weight[..., None] * after)


def test_unknown_variant():
    with pytest.raises(ValueError, match='variant must be "A" or "U", not "B"'):
        AdaptiveComputationTime(5, "B")
