"""The planner's arithmetic, without ranks, against counts and limits known by other ways."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers.collectives.cost import Link
from helpers.models.transformer import Config, parameter_count, transformer
from helpers.sharded import counts, planner, zero
from helpers.sharded.arrays import cut
from helpers.sharded.counts import flops
from helpers.sharded.hybrid import stage_pieces
from helpers.sharded.mesh import Layout

CONFIG = Config(vocabulary=96, context=16, layers=4, heads=8, width=32)
FREE = Link("free", 0.0, 0.0)
SLOW = Link("slow", 1e-3, 1e-7)


def machine(ranks, between=SLOW, inside=FREE, hosts=2):
    return planner.Machine(1e9, inside, between, tuple(r * hosts // ranks for r in range(ranks)))


def test_parameters_of_a_rank_are_those_of_the_model():
    assert planner.stage_parameters(CONFIG, range(6), 1) == parameter_count(CONFIG)
    stages = stage_pieces(CONFIG, 2)
    assert sum(planner.stage_parameters(CONFIG, s, 1) for s in stages) == parameter_count(CONFIG)

    for tensor in (2, 4, 8):
        model = transformer(CONFIG)
        mine = sum(cut(n, p, tensor, tensor - 1).numel() for n, p in model.named_parameters())
        assert planner.stage_parameters(CONFIG, range(6), tensor) == mine


def test_operations_are_those_that_pytorch_counts():
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        transformer(CONFIG)(torch.zeros(3, 16, dtype=torch.int64))
    assert counter.get_total_flops() == pytest.approx(flops(CONFIG, range(6), 3, 16), rel=0.1)


def test_one_rank_computes_and_nothing_else():
    plan = planner.predict(CONFIG, Layout(), machine(1, hosts=1), batch=8)
    assert plan.seconds == plan.compute == 3 * flops(CONFIG, range(6), 8, 16) / 1e9
    assert plan.memory > 16 * parameter_count(CONFIG)


def test_bubble_and_messages_by_hand():
    two = machine(2)
    plan = planner.predict(CONFIG, Layout(pipeline=2), two, batch=8, micro=4)
    assert plan.bubble == pytest.approx((plan.compute + plan.pipeline) / 4)
    assert plan.pipeline == pytest.approx(4 * 2 * (1e-3 + 2 * 16 * 32 * 4 * 1e-7))
    plan = planner.predict(CONFIG, Layout(tensor=2), two, batch=8)
    sent = counts.tensor(CONFIG, 2, 8)
    assert plan.tensor == pytest.approx(sent.messages * 1e-3 + sent.bytes * 1e-7)
    plan = planner.predict(CONFIG, Layout(data=2), two, batch=8)
    gradients = 4 * parameter_count(CONFIG)
    assert plan.data == pytest.approx(2 * 1e-3 + gradients * 1e-7)


@pytest.mark.parametrize(
    ("layout", "axis", "groups"),
    [
        (Layout(data=2, tensor=4), "data", 4),
        (Layout(data=2, tensor=4), "tensor", 0),
        (Layout(tensor=8), "tensor", 1),
        (Layout(pipeline=2, tensor=4), "pipeline", 4),
    ],
)
def test_groups_that_share_a_link(layout, axis, groups):
    assert planner.groups_per_link(layout, axis, (0, 0, 0, 0, 1, 1, 1, 1)) == groups


def simulated(config, layout, machine, batch, micro):
    """Follow each micro-batch: a sent message delays its receiver alone, gradients share a link."""
    plan, p = planner.predict(config, layout, machine, batch, micro), layout.pipeline
    rows = batch // (layout.data * micro)
    work = [flops(config, s, rows, config.context) / machine.speed for s in stage_pieces(config, p)]
    said, hop, ends = plan.tensor / micro / 2, plan.pipeline / micro / 2, [0.0] * p
    for way, order in ((1, range(p)), (2, range(p - 1, -1, -1))):
        for _ in range(micro):
            arrived = 0.0
            for stage in order:
                ends[stage] = max(ends[stage], arrived) + way * work[stage] + said
                arrived = ends[stage] + hop
    free = 0.0
    for end in reversed(ends):  # the last stage's gradients are first
        free = max(free, end) + plan.data / p
    return free


@pytest.mark.parametrize(
    ("data", "pipeline", "micro"), [(2, 4, 4), (4, 2, 1), (4, 2, 2), (8, 1, 1)]
)
def test_what_can_overlap_is_what_a_simulation_hides(data, pipeline, micro):
    link = Link("slow", 1e-5, 1e-9)
    given = (CONFIG, Layout(data, pipeline), machine(8, link, link), 8)
    found = planner.least(*given, micro)
    assert found == pytest.approx(simulated(*given, micro))
    plan = planner.predict(*given, micro)
    assert found == plan.seconds if pipeline == 1 else found < plan.seconds


def test_plans_are_sorted_fit_the_memory_and_divide_it():
    found = planner.plans(CONFIG, machine(8), batch=8)
    seconds = [plan.seconds for plan, _ in found]
    assert len(found) > 10
    assert seconds == sorted(seconds)
    whole = max(plan.memory for plan, _ in found)
    small = planner.Machine(1e9, FREE, SLOW, machine(8).places, memory=whole / 2)
    fitting = planner.plans(CONFIG, small, batch=8)
    assert 0 < len(fitting) < len(found)
    assert all(plan.memory <= whole / 2 for plan, _ in fitting)


@pytest.mark.parametrize("wrong", [Layout(tensor=3), Layout(pipeline=8), Layout(data=3)], ids=str)
def test_a_layout_that_does_not_fit_is_refused(wrong):
    with pytest.raises(ValueError, match="does not divide"):
        planner.predict(CONFIG, wrong, machine(wrong.ranks, hosts=1), batch=8)


def test_bytes_of_zero_as_in_the_paper():
    """Rajbhandari et al., figure 1: 7.5 billion parameters on 64 ranks, in GB."""
    half = zero.Bytes(2, 2, 12)  # the optimizer has a copy and two moments in float32
    found = [7.5 * zero.at_rest(stage, 64, half).total for stage in range(4)]
    assert found == pytest.approx([120, 31.4, 16.6, 1.9], abs=0.05)
