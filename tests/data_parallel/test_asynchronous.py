import numpy as np
import pytest

from helpers.data_parallel.faults import FAULTS
from helpers.data_parallel.history import History
from helpers.data_parallel.optimizers import FlatSGD
from helpers.data_parallel.schemes import Stop
from helpers.datasets import mnist
from helpers.models.lenet import accuracy_of
from tests.cluster.ways import PART
from tests.data_parallel import ranks
from tests.mpi.runner import run_ranks


def run(n: int, stop: dict, **settings) -> History:
    histories = run_ranks(n, ranks.with_settings, stop, settings, timeout=120)
    assert all(h.report == histories[0].report for h in histories)
    return histories[0]


@pytest.mark.mpi
def test_three_workers_learn_and_every_update_has_its_staleness():
    history = run(4, {"updates": 300})
    assert history.updates == history.gradients == len(history.staleness) == 300
    assert set(history.workers) == {1, 2, 3}
    # With W workers, those served between a worker's two turns are the updates it missed.
    last = {}
    for update, (worker, stale) in enumerate(zip(history.workers, history.staleness, strict=True)):
        if worker in last:
            assert stale == update - last[worker] - 1
        last[worker] = update
    assert np.mean(history.losses[-20:]) < 0.6 * np.mean(history.losses[:20])
    assert accuracy_of(history.weights, mnist.load()) > 0.5  # guessing: 0.1; out of step varies
    assert history.report == ["the server stopped: 300 updates"]
    assert history.batch == 16


@pytest.mark.mpi
def test_layers_of_different_workers_never_mix():
    seen, *_ = run_ranks(5, ranks.whole_pushes, 100, timeout=120)
    assert len(seen) == 100
    assert all(taken == [worker] for worker, taken in seen), seen
    assert {worker for worker, _ in seen} == {1, 2, 3, 4}


@pytest.mark.mpi
def test_a_straggler_pushes_less_and_staler():
    history = run(3, {"updates": 120}, slow={2: 8.0})
    workers, staleness = np.array(history.workers), np.array(history.staleness)
    assert (workers == 2).sum() < (workers == 1).sum()
    assert staleness[workers == 2].mean() > staleness[workers == 1].mean()


@pytest.mark.mpi
def test_a_paced_straggler_keeps_its_own_pace():
    history = run(3, {"updates": 40}, slow={2: 8.0}, pace=5e-3)
    assert history.seconds[-1] >= history.workers.count(2) * 8 * 5e-3


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("die", "rank 2 left: it died on purpose"),
        ("die mid-push", "rank 2 fell silent while sending: push dropped"),
        ("nan", "rank 2 sent a gradient that is not finite: dropped"),
        ("wrong shape", "rank 2 dismissed: layers of (149,"),
    ],
)
def test_a_faulty_worker_ends_nobody_else(fault, words):
    history = run(3, {"updates": 60}, faults={2: (fault, 5)})
    assert any(words in line for line in history.report)
    assert history.updates == 60
    assert history.workers[-10:] == [1] * 10
    assert np.isfinite(history.weights).all()


@pytest.mark.mpi
def test_all_workers_gone_ends_the_server():
    history = run(3, {"updates": 500}, faults={1: ("die", 3), 2: ("die mid-push", 3)})
    assert 0 < history.updates < 10
    assert history.report[-1] == "the server stopped: no worker left"


@pytest.mark.mpi
def test_a_server_that_says_nothing_ends_the_workers():
    results = run_ranks(3, ranks.server_that_vanishes, timeout=120)
    assert results[1:] == ["the server did not answer within 1 s"] * 2


@pytest.mark.mpi
def test_a_fault_that_there_is_not():
    assert (
        run_ranks(2, ranks.unknown_fault, timeout=120)
        == [f"a fault must be one of {', '.join(FAULTS)}; got 'explode'"] * 2
    )


def test_stop_conditions():
    history = History("x", 2, 1)
    assert Stop(updates=None).reached(history, 1e9) == ""
    assert Stop(updates=None, seconds=2).reached(history, 2.5) == "2 s"
    for _ in range(20):
        history.record(0.0, 0.25)
    assert Stop(updates=20).reached(history, 0) == "20 updates"
    assert Stop(updates=None, loss=0.3).reached(history, 0) == "loss 0.250"
    assert Stop(updates=None, loss=0.2).reached(history, 0) == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"updates": 0}, r"whole number of updates, 1 or more; got Stop\(updates=0,"),
        ({"updates": 2.0}, "whole number of updates, 1 or more; got .*updates=2.0"),
        ({"updates": True}, "whole number of updates"),
        ({"seconds": 0}, "more than 0 seconds; got .*seconds=0,"),
        ({"seconds": -1.5}, "more than 0 seconds; got .*seconds=-1.5"),
        ({"seconds": float("inf")}, "more than 0 seconds; got .*seconds=inf"),
        ({"seconds": "2"}, "more than 0 seconds; got .*seconds='2'"),
        ({"loss": float("nan")}, "a finite loss; got .*loss=nan"),
        ({"loss": "low"}, "a finite loss; got .*loss='low'"),
    ],
)
def test_a_stop_that_never_comes_or_is_none_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Stop(**given)


@pytest.mark.mpi
@pytest.mark.parametrize(
    "scheme",
    ["Asynchronous", *(pytest.param(name, marks=PART) for name in ("MPIAllreduce", "Server"))],
)
def test_a_run_ends_by_what_comes_first(scheme):
    found = run_ranks(3, ranks.stopped, scheme, timeout=120)
    assert [each[1:] for each in found] == [found[0][1:]] * 3, "the ranks do not agree"
    for name, ended, updates, seconds, losses in found[0][1:]:
        if name == "steps":
            assert (ended, updates) == ("12 updates", 12)
        elif name == "updates":
            assert (ended, updates) == ("7 updates", 7)
        elif name == "seconds":
            assert ended == "0.4 s"
            assert 0 < updates < 10_000
            if scheme != "Asynchronous":  # there a hello comes too late, after an update in time
                assert seconds[-1] >= 0.4
        elif name == "loss":
            assert ended == f"loss {np.mean(losses[-20:]):.3f}"
            assert updates >= 20
            assert np.mean(losses[-20:]) <= 1.5 < np.mean(losses[-21:-1])
        else:
            assert (name, ended, updates) == ("seconds before loss", "0.2 s", updates)


@pytest.mark.mpi
def test_a_worker_that_comes_too_late_leaves_at_once_and_disturbs_no_other_run():
    found = run_ranks(3, ranks.late_worker, timeout=120)
    first, second, _ = found[0]
    assert first.ended == "0.3 s"
    assert any("fell silent: given up" in line for line in first.report)
    assert set(first.workers) == {1}
    assert second.report == ["the server stopped: 12 updates"]
    assert set(second.workers) == {1, 2}
    assert all(all_left for _, _, all_left in found), "somebody has waited out a time limit"


@pytest.mark.mpi
def test_a_stop_that_is_none_or_cannot_be():
    none, without_loss = run_ranks(2, ranks.bad_stops, timeout=60)[0]
    assert none == "train expects stop=Stop(...); got 2.5"
    assert (
        "the server is told no loss to stop at; got Stop(updates=None, seconds=None, loss=1.0)"
        in (without_loss)
    )


def test_two_flat_arrays_do_what_a_whole_model_and_optimizer_do():
    """The claim that the server needs a model and its optimizer no longer holds, if it ever did."""
    import torch

    from helpers.data_parallel.flat import Flat
    from helpers.models.lenet import LeNet

    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    flat = Flat(LeNet())
    server = FlatSGD(flat, rate=0.1, momentum=0.9)
    for seed in range(5):
        gradient = torch.randn(61_706, generator=torch.Generator().manual_seed(seed))
        parts = gradient.split(flat.sizes)
        for parameter, part in zip(model.parameters(), parts, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        optimizer.step()
        flat.gradients.copy_(gradient)
        server.step()
    whole = torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()
    assert np.allclose(server.values, whole, atol=1e-6)


@pytest.mark.mpi
def test_a_receive_of_ones_own_serves_without_a_handshake():
    history, *_ = run_ranks(4, ranks.without_handshake, "right", 90, timeout=120)
    assert history.updates == history.gradients == 90
    assert set(history.workers) == {1, 2, 3}
    last = {}
    for update, (worker, stale) in enumerate(zip(history.workers, history.staleness, strict=True)):
        assert stale == update - last.get(worker, 0)
        last[worker] = update + 1


@pytest.mark.mpi
def test_a_receive_that_names_nobody_ends_the_training_with_a_reason():
    history, *_ = run_ranks(3, ranks.without_handshake, "none", 10, timeout=120)
    assert history.updates == 0
    assert history.report == ["expected the rank of a worker; got None"]


@pytest.mark.mpi
def test_one_process_and_a_gradient_in_one_message():
    (single, whole), (nobody, _) = run_ranks(2, ranks.alone_and_in_one_message, 30, timeout=120)
    assert (single.scheme, single.updates, single.gradients) == ("one process", 30, 30)
    assert nobody is None
    assert whole.updates == 30
    assert set(whole.staleness) == {0}


@pytest.mark.mpi
def test_the_same_data_on_every_rank_is_one_process():
    same, divided, single = run_ranks(2, ranks.same_and_divided, 10, timeout=120)[0]
    assert np.allclose(same, single.weights, atol=1e-5)
    assert not np.allclose(divided, single.weights, atol=1e-4)


def watch(scheme: str, steps: int):
    from helpers.data_parallel import schemes, watched

    return watched.computing(getattr(schemes, scheme), steps=steps, batch=2, momentum=0.0)


@pytest.mark.mpi
@pytest.mark.parametrize("scheme", ["MPIAllreduce", "Asynchronous"])
def test_who_computes_when_is_noted_on_each_rank(scheme):
    everyone = run_ranks(3, watch, scheme, 6, timeout=120)
    spans = [span for rank in everyone for span in rank]
    assert min(begin for begin, _ in spans) == 0
    assert all(begin < end for begin, end in spans)
    assert [bool(rank) for rank in everyone] == [scheme == "MPIAllreduce", True, True]
    if scheme == "MPIAllreduce":
        assert {len(rank) for rank in everyone} == {6}
