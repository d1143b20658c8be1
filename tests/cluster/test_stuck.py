"""Who waits for whom: the conclusions drawn from what the ranks say of themselves."""

import json
import os
import time

import pytest

from helpers.cluster.rank import state
from helpers.cluster.start.stuck import Wait, from_stack, hopeless, read, silent, table


def wait(rank, call="recv", peer=None, seconds=5.0, members=()):
    return Wait(rank, call, peer, None, 3, "comm.recv()", seconds, tuple(members))


ALL = [0, 1, 2]


@pytest.mark.parametrize(
    ("waits", "ended", "stuck"),
    [
        ([wait(0, peer=1), wait(2, peer=0)], [1], {0, 2}),  # directly and through another
        ([wait(0, peer=2), wait(2, peer=0)], [1], set()),  # for each other: a limit ends that
        ([wait(0, call=None), wait(2, peer=0)], [1], set()),  # rank 0 computes
        ([wait(0, peer=1, seconds=0.2)], [1], set()),  # it has just begun
        ([wait(0, "Allreduce", "all", members=ALL)], [1], {0}),  # every member is needed
        ([wait(0, "Allreduce", "all", members=[0, 2])], [1], set()),  # and nobody else
        ([wait(0, peer="ANY_SOURCE", members=ALL)], [1], set()),
        ([wait(0, peer="ANY_SOURCE", members=ALL)], [1, 2], {0}),
        ([wait(0, peer="ANY_SOURCE", members=ALL), wait(2, peer=1)], [1], {0, 2}),
        ([wait(0, "Waitall", [1, 2])], [1], {0}),
        ([wait(0, "Waitany", [1, 2])], [1], set()),
        ([wait(0, "Waitany", [1, 2])], [1, 2], {0}),
    ],
)
def test_who_waits_for_a_rank_that_has_ended(waits, ended, stuck):
    assert hopeless(waits, ended) == stuck


@pytest.mark.parametrize(
    ("peers", "told"),
    [({0: 1, 1: 2, 2: 3, 3: 1}, "1 → 2 → 3 → 1"), ({0: 0}, "0 → 0"), ({0: 1}, "")],
)
def test_the_table_names_a_deadlock(peers, told):
    text = table([wait(rank, peer=peer) for rank, peer in peers.items()])
    assert told in text
    assert ("deadlock" in text) == bool(told)


def test_the_table_names_rank_call_peer_tag_line_and_time():
    text = table([Wait(2, "Recv", 0, 7, 4, "comm.Recv(a, 0, 7)", 2.25), wait(3, call=None)])
    *_, row, computing = text.splitlines()
    for part in ("2", "Recv", "rank 0", "7", "4: comm.Recv(a, 0, 7)", "2.2 s"):
        assert part in row
    assert "no MPI call" in computing


def test_read_copes_with_missing_and_torn_files(tmp_path):
    (tmp_path / "rank-1.json").write_text('{"rank": 1, "ca')
    state = {"rank": 2, "call": "recv", "peer": 0, "tag": 5, "since": 90.0, "line": 3}
    (tmp_path / "rank-2.json").write_text(json.dumps(state))
    first, second, third = read(tmp_path, [2, 0, 1], now=100.0)
    assert (first.rank, first.call) == (0, None)
    assert (second.rank, second.call) == (1, None)
    assert (third.rank, third.call, third.peer, third.seconds) == (2, "recv", 0, 10.0)


def test_a_file_that_was_not_touched_for_a_second_is_silent(tmp_path):
    now = time.time()
    for rank, age in ((0, 0.1), (1, 3.0)):
        path = tmp_path / f"rank-{rank}.json"
        path.write_text("{}")
        os.utime(path, (now - age, now - age))
    assert silent(tmp_path, [0, 1, 2], now) == [1, 2]


def test_the_first_that_ended_comes_first_and_half_a_file_is_none(tmp_path):
    for number, (name, text) in enumerate([("2", "137\n"), ("0", "1\n"), ("", "1\n"), ("1", "")]):
        path = tmp_path / f"{state.EXIT}{name}"
        path.write_text(text)
        os.utime(path, (100 + number,) * 2)
    assert state.exits(tmp_path) == [(2, 137), (0, 1)]


def test_a_wait_is_read_from_the_main_threads_stack():
    text = (
        "Thread 0x1 (most recent call first):\n"
        '  File "/x/threading.py", line 320 in wait\n\n'
        "Current thread 0x2 (most recent call first):\n"
        '  File "<traced allreduce>", line 7 in allreduce\n'
        '  File "/tmp/ipykernel_7/1.py", line 4 in <module>\n'
    )
    found = from_stack(text, 2, 5.0)
    assert (found.rank, found.call, found.peer, found.line) == (2, "allreduce", "all", 4)
