"""The folder that ranks and notebook share: what one side writes, the other reads."""

import os
import time

import pytest

from helpers.cluster.rank import state
from helpers.cluster.rank.state import RankState


def test_a_state_is_read_as_it_was_written_and_confirmed(tmp_path):
    told = RankState(3, 1.5, "Waitall", [0, 2], 7, 12, 2.5, (0, 2, 3), 4, "comm.recv(0, 7)")
    told.write(tmp_path)
    assert RankState.read(tmp_path, 3) == told
    assert RankState.read(tmp_path, 2) == RankState(2)
    assert state.confirmed(tmp_path, 2) == 0
    (path,) = tmp_path.iterdir()
    os.utime(path, (100, 100))
    assert state.confirmed(tmp_path, 3) == 100
    told.confirm(tmp_path)
    assert abs(state.confirmed(tmp_path, 3) - time.time()) < 60
    for method in (told.write, told.confirm):
        with pytest.raises(FileNotFoundError):
            method(tmp_path / "gone")


def test_each_wish_to_stop_is_another(tmp_path):
    seen = [state.asked_to_stop(tmp_path)]
    for _ in range(2):
        time.sleep(0.01)
        state.ask_to_stop(tmp_path)
        seen.append(state.asked_to_stop(tmp_path))
    assert seen[0] == 0
    assert len(set(seen)) == 3


def test_ranks_that_ended_in_order_of_time(tmp_path):
    for number, (name, text) in enumerate([("2", "137\n"), ("0", "1\n"), ("", "1\n"), ("1", "")]):
        path = tmp_path / f"{state.EXIT}{name}"
        path.write_text(text)
        os.utime(path, (100 + number,) * 2)
    assert state.exits(tmp_path) == [(2, 137), (0, 1)]


def test_a_new_set_of_ranks_finds_nothing_of_the_old_one(tmp_path):
    RankState(0, call="recv").write(tmp_path)
    state.stack_file(tmp_path, 0).touch()
    (tmp_path / f"{state.EXIT}0").write_text("1")
    state.ask_to_stop(tmp_path)
    asked = state.asked_to_stop(tmp_path)
    state.clear(tmp_path)
    assert RankState.read(tmp_path, 0) == RankState(0)
    assert state.exits(tmp_path) == []
    assert state.asked_to_stop(tmp_path) == asked
