"""Schedules on real ranks give what one process gives."""

import itertools

import pytest
import torch
from torch import nn

from helpers.pipeline import families, runs
from helpers.pipeline.following import follow_updates
from helpers.pipeline.model import Costs, simulate
from helpers.pipeline.stage import put_off
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.pipeline import on_ranks
from tests.pipeline.test_schedules import ZB_V

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("ranks", [1, 3, *(pytest.param(n, marks=PART) for n in (2, 4, 6, 8))])
def test_every_schedule_equals_one_process(ranks):
    run_ranks(ranks, on_ranks.equal_to_one_process)


def test_a_schedule_whose_stages_turn_back_equals_one_process():
    assert max(run_ranks(2, runs.difference, ZB_V)) < 1e-12


def test_bytes_kept_are_as_predicted():
    run_ranks(3, on_ranks.memory)


@pytest.mark.parametrize(
    ("ranks", "stash"), [(3, True), (3, False), pytest.param(1, True, marks=PART)]
)
def test_pipedream_is_as_stale_as_its_place_and_follows_a_model_if_it_stashes(ranks, stash):
    plan = families.pipedream(ranks, 7)
    found = run_ranks(ranks, follow_updates, plan, stash, ranks + 1)[0]
    behind = range(ranks - 1, -1, -1)
    assert found["staleness"] == [{i: min(i, most) for i in range(7)} for most in behind]
    assert found["versions"] == [1 + stash * most for most in behind]
    assert found["nearest"] < 1e-12 if stash else found["nearest"] > 1e-3


def test_a_recorded_step_keeps_the_schedule_and_its_pace():
    costs = Costs(4e-3, 4e-3, 4e-3)
    found = run_ranks(2, runs.record, families.one_f_one_b(2, 8), costs)
    assert found[1] is None
    line = found[0]
    assert line.recorded
    for rank in range(2):
        mine = [box for box in line.boxes if box.rank == rank]
        assert tuple(box.action for box in mine) == line.schedule.orders[rank]
        assert all(a.end <= b.begin for a, b in itertools.pairwise(mine))
        assert all(box.end - box.begin >= costs.of(box.action.kind, 0) for box in mine)
    done = {(box.rank, box.action): box for box in line.boxes}
    for (rank, action), box in done.items():
        source = line.schedule.source(rank, action)
        if source is not None:
            assert done[source].end <= box.begin + 1e-4  # the clocks' uncertainty
    assert line.span >= simulate(line.schedule, costs).span
    assert 0 < line.bubble < 1


def test_too_few_versions_to_know_the_model_are_refused():
    """Five did for four ranks; on five, the model of a stashed run was not among them."""
    for ranks in (1, 4, 5):
        with pytest.raises(ValueError, match=f"newest={ranks}, expected {ranks + 1} or more"):
            follow_updates(families.pipedream(ranks, 8), True, newest=ranks)


def test_what_does_not_fit_is_refused_and_nobody_waits_for_ever():
    run_ranks(2, on_ranks.refused)


def test_a_linear_layer_may_stand_in_any_number_of_dimensions():
    for shape in ((3,), (2, 3), (4, 2, 3)):
        plain, split = (nn.Linear(3, 2, bias=len(shape) > 1).double() for _ in range(2))
        split.load_state_dict(plain.state_dict())
        put = put_off(split)
        x = torch.randn(shape, dtype=torch.float64)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        plain(a).pow(2).sum().backward()
        split(b).pow(2).sum().backward()
        assert split.weight.grad is None
        torch.testing.assert_close(a.grad, b.grad)
        put[0].work()
        torch.testing.assert_close(plain.weight.grad, split.weight.grad)
        if len(shape) > 1:
            torch.testing.assert_close(plain.bias.grad, split.bias.grad)
