import numpy as np
import torch

from ndr.view.packing import change_of, pack, restore


def test_packed_numbers_are_the_networks_own(trace):
    packed = pack(trace)
    columns, answers = len(trace.columns), len(trace.answers)
    attention = restore(packed.attention, np.uint8, (5, 3, columns, columns))
    np.testing.assert_allclose(attention, trace.attention, atol=0.5 / 255 + 1e-6)
    openness = restore(packed.openness, np.uint16, (5, columns))
    np.testing.assert_allclose(openness, trace.openness, atol=1e-5)
    readouts = restore(packed.readouts, np.uint16, (6, columns, answers))
    np.testing.assert_allclose(readouts, trace.logits.softmax(-1), atol=1e-5)
    assert packed.answer == trace.answer and packed.readout == columns - 1 and packed.halting is None


def test_halting_weights_travel(halting):
    trace = halting.trace("101 d a")
    packed = pack(trace)
    np.testing.assert_allclose(
        restore(packed.halting, np.uint16, tuple(trace.halting.shape)), trace.halting.clamp(0, 1), atol=1e-5
    )
    assert packed.openness is None


def test_change_is_none_for_a_copy_and_all_for_the_opposite():
    state = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    found = change_of(torch.stack([state, state, -state]))
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
