"""What splits compute, without ranks: slices, softmaxes in pieces, routes, meshes; bad input."""

from types import SimpleNamespace

import pytest
import torch

from helpers.models.transformer import Config, layer, transformer
from helpers.sharded import arrays, zero
from helpers.sharded import device as device_module
from helpers.sharded.arrays import cut, join
from helpers.sharded.counts import flops, segments
from helpers.sharded.device import Device
from helpers.sharded.experts import capacity_of, route
from helpers.sharded.hybrid import load_checkpoint, stage_pieces
from helpers.sharded.mesh import Layout

CONFIG = Config(vocabulary=24, context=8, layers=3, heads=4, width=16)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_parts_join_to_the_whole(ranks):
    for name, whole in transformer(CONFIG, seed=3).state_dict().items():
        parts = [cut(name, whole, ranks, rank) for rank in range(ranks)]
        assert torch.equal(join(name, parts), whole)


def test_first_choices_come_before_second_ones_and_early_tokens_before_late():
    logits = torch.tensor([[3.0, 2.0, 0.0], [3.0, 0.0, 2.0], [0.0, 3.0, 2.0], [3.0, 2.0, 0.0]])
    routes = route(logits, choices=2, capacity=2)
    assert routes.expert.tolist() == [0, 0, 1, 1, 2, 2]
    assert routes.token.tolist() == [0, 1, 2, 0, 1, 2]
    both = routes.weight[routes.token == 0].sum()
    torch.testing.assert_close(both, torch.tensor(1.0))
    assert route(logits, 1, 1).token.tolist() == [0, 2]


def test_a_mesh_has_every_rank_once_on_each_axis():
    layout = Layout(2, 3, 4)
    for axis, length in (("data", 2), ("pipeline", 3), ("tensor", 4)):
        groups = layout.groups(axis)
        assert sorted(rank for group in groups for rank in group) == list(range(24))
        assert {len(group) for group in groups} == {length}
    assert layout.groups("tensor")[0] == [0, 1, 2, 3]


@pytest.fixture
def clock(monkeypatch):
    """A clock that only sleep moves; ``clock.now`` in s."""
    found = SimpleNamespace(now=0.0, perf_counter=lambda: found.now)
    found.sleep = lambda seconds: setattr(found, "now", found.now + seconds)
    monkeypatch.setattr(device_module, "time", found)
    return found


def test_a_device_paces_each_part_before_its_message_and_adds_waits(clock):
    device, moments = Device(speed=1e3), []
    with device.compute([10.0, 0.0, 20.0, 5.0]):
        for wait in (0.005, 0.0):
            device.arrive()
            moments.append(clock.now)
            device.wait(wait)  # as if a message had taken so long: what follows is later
    assert [*moments, clock.now] == pytest.approx([0.010, 0.010, 0.040])
    assert (device.waited, device.late) == (0.005, 0)
    with device.compute([1.0]):
        clock.sleep(0.01)  # the arithmetic itself takes longer than its pace
    assert (clock.now, device.late) == (pytest.approx(0.050), 1)
    free = Device()
    with free.compute([1e9]):
        free.arrive()
    assert clock.now == pytest.approx(0.050)


def test_segments_are_all_of_the_operations_and_as_many_as_tensor_ranks_meet():
    for pieces in (range(5), range(2), range(2, 5), range(4, 5)):
        found = segments(CONFIG, pieces, 3, 7)
        assert sum(found) == flops(CONFIG, pieces, 3, 7)
        ends = sum(piece in (0, CONFIG.layers + 1) for piece in pieces)
        assert len(found) == 2 * (len(pieces) - ends) + ends


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: zero.at_rest(4, 2), "stages 0, 1, 2, 3; got 4"),
        (lambda: zero.sent(-1, 2, 5), "got -1"),
        (lambda: arrays.array_of(torch.ones(3, 4).T), r"contiguous.*\(4, 3\)"),
        (lambda: cut("1.perceptron.up.weight", torch.ones(6, 2), 4, 0), "multiple of the 4.*got 6"),
        (lambda: Layout(data=0), "data=0"),
        (lambda: Layout(shard=4), "shard=4"),
        (lambda: stage_pieces(CONFIG, 4), "1 to 3 stages; got 4"),
        (lambda: route(torch.ones(3, 2), 3, 1), "1 to 2 choices; got 3"),
        (lambda: capacity_of(8, 4, 1, 0.0), "above 0; got 0"),
        (lambda: Device(speed=0), "above 0"),
        (lambda: layer(CONFIG, 9), "index=9"),
    ],
)
def test_bad_input_is_refused_in_words(call, told):
    with pytest.raises(ValueError, match=told):
        call()


def test_a_folder_without_its_list_is_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"checkpoint\.json is missing"):
        load_checkpoint(tmp_path, SimpleNamespace(config=CONFIG))
