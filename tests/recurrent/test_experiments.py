"""Tasks, training of stacked seeds, and what the scores can carry."""

import math
import re

import pytest
import torch
from torch.func import stack_module_state

from helpers.recurrent.experiments import (
    VARIANTS,
    Comparison,
    Scores,
    half_life_bias,
    left_before_training,
    one_that_forgets,
    train,
)
from helpers.recurrent.readers import Reader, stacked
from helpers.recurrent.tasks import ForgetOnCue, LongCopy


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_forget_on_cue_counts_from_the_last_cue_and_long_copy_shows_its_symbol_once():
    x, labels = ForgetOnCue(length=12, cue=0.3).draw(50, generator())
    for row, label in zip(x.transpose(0, 1), labels, strict=True):
        cues = row[:, 1].nonzero().flatten().tolist()
        since = row[cues[-1] if cues else 0 :, 0].sum()
        assert (since > 0) == bool(label)
    x, labels = LongCopy(length=9).draw(20, generator())
    assert x[0, :, :-1].argmax(1).equal(labels)
    assert x[1:, :, :-1].abs().sum() == 0
    assert x[1:, :, -1].abs().eq(1).all()


def test_stacked_seeds_learn_and_agree_with_the_same_seeds_alone():
    task = LongCopy(length=3)
    together = train(task, {}, seeds=2, hidden=8, steps=40, rate=0.02)
    alone = train(task, {}, seeds=1, hidden=8, steps=40, rate=0.02)
    assert together.values[0] == pytest.approx(alone.values[0], abs=0.02)
    assert min(together.values) > 0.9


@pytest.mark.parametrize("variant", VARIANTS)
def test_stacked_readers_answer_as_each_does_alone(variant):
    torch.manual_seed(0)
    readers = [Reader(3, 5, 4, **VARIANTS[variant]).double() for _ in range(3)]
    parameters, _ = stack_module_state(readers)
    x = torch.randn(3, 7, 2, 3).double()  # (S, T, B, I)
    alone = torch.stack([reader(part) for reader, part in zip(readers, x, strict=True)])
    torch.testing.assert_close(stacked(readers[0], parameters, x), alone)


def full_gru(inputs, states, h):
    (i_r, i_z, i_n), (s_r, s_z, m) = inputs, states
    r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
    return (1 - z) * torch.tanh(i_n + r * m) + z * h


def test_a_cell_of_ones_own_is_trained_as_a_named_variant_is():
    comparison = Comparison(LongCopy(length=3), {"hidden": 5, "steps": 10, "seeds": 2})
    assert comparison.run(full_gru).values == pytest.approx(
        comparison.run("half-life GRU").values, abs=0.01
    )
    none = comparison.run(lambda inputs, states, h: torch.zeros_like(h))
    assert max(none.values) < 0.5  # one that forgets all guesses
    with pytest.raises(ValueError, match=r"the cell returned .*3.* expected a state"):
        comparison.run(lambda inputs, states, h: h[..., :3])
    for cell in (torch.nn.Bilinear(1, 1, 1), torch.nn.Linear(1, 1).forward):
        with pytest.raises(ValueError, match="without parameters of its own, got "):
            comparison.run(cell)
    with pytest.raises(ValueError, match="the cell returned None"):
        comparison.run(lambda inputs, states, h: None)
    with pytest.raises(ValueError, match="variant='gru': expected one of half-life GRU, GRU, "):
        comparison.run("gru")


def test_before_training_the_half_life_keeps_more_of_the_gradient():
    patient, usual = (left_before_training(name, seeds=2) for name in ("half-life GRU", "GRU"))
    assert len(patient) == 2
    assert min(patient) > 0.1 > 1e-3 > max(usual)


def test_half_life_is_where_half_is_left_and_bad_settings_are_named():
    assert torch.sigmoid(torch.tensor(half_life_bias(7.0))).item() ** 7 == pytest.approx(0.5)
    assert half_life_bias(1) == 0
    H = 4
    biased = Reader(2, H, 2, half_life=10).layer.bias_ih_l0
    assert (biased[H : 2 * H] > 1).all()
    for steps in (0, 1e17):
        with pytest.raises(
            ValueError, match=rf"steps={re.escape(str(steps))}: expected .* at most"
        ):
            half_life_bias(steps)
    says = r"LongCopy expects .* at least 1; got length=0, classes=4"
    with pytest.raises(ValueError, match=says):
        LongCopy(length=0)


def test_intervals_and_differences():
    near, far = Scores((0.9, 0.92, 0.91)), Scores((0.5, 0.52, 0.53))
    assert near.margin == pytest.approx(4.303 * 0.01 / math.sqrt(3), rel=1e-3)
    mean, low, high = far.against(near)
    assert low < mean < high < 0
    assert mean == pytest.approx((-0.4 - 0.4 - 0.38) / 3)
    assert Scores((0.5,)).margin == math.inf
    with pytest.raises(ValueError, match="expected as many"):
        near.against(Scores((0.5,)))


@pytest.fixture
def one_thread():
    """Steps of four units are too small to share: beside other work two threads wait for turns."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_one_that_forgets_closes_its_gates_at_a_cue():
    layer, x, (signs, cues) = one_that_forgets(seed=1)
    assert signs == x[:, 0, 0].tolist()
    assert cues == [t + 1 for t in range(12) if x[t, 0, 1]]
    assert 0 < len(cues) < 12
    with torch.no_grad():
        gates = layer.trace(x)
    at_cue = x[:, 0, 1] == 1
    for gate in (gates.reset[:, 0], gates.update[:, 0]):
        assert (gate[at_cue].mean(0) < gate[~at_cue].mean(0) - 0.1).all()
