"""Suites that train for minutes: a later run goes on, only whole pieces count, rows are right."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bench import attention, pieces, recurrent
from helpers.recurrent.experiments import comparisons

JOBS = [(f"a job {i}", i) for i in range(12)]


def test_it_goes_on_where_it_stopped(tmp_path, capsys, monkeypatch):
    clock = iter(range(0, 10_000, 20))  # every look at the clock is 20 s after the last
    monkeypatch.setattr(pieces.time, "perf_counter", lambda: next(clock))
    done = []

    def work(job):
        done.append(job)
        return {"number": job[1]}

    first = pieces.run(tmp_path, JOBS, work, 100, ThreadPoolExecutor)
    assert 0 < len(first) < len(JOBS)
    found = pieces.run(tmp_path, JOBS, work, executor=ThreadPoolExecutor)
    assert found == {job: {"number": job[1]} for job in JOBS}
    assert sorted(done) == sorted(JOBS)  # none twice
    assert f"{len(first)} of 12 pieces are there" in capsys.readouterr().out


def test_a_job_that_fails_is_named_and_leaves_nothing(tmp_path):
    def work(job):
        raise RuntimeError(f"no memory for {job[0]}")

    with pytest.raises(RuntimeError, match="no memory for a job"):
        pieces.run(tmp_path, JOBS, work, executor=ThreadPoolExecutor)
    assert list(tmp_path.iterdir()) == []


def test_other_code_or_another_machine_are_other_pieces(monkeypatch):
    here = attention.folder()
    assert here == attention.folder()
    assert here != recurrent.folder()
    assert here != pieces.folder("attention", ["helpers/attention/*.py"])
    monkeypatch.setattr(pieces, "machine", lambda: {"name": "another"})
    assert attention.folder() != here


def test_rows_of_attention_hold_median_spread_and_bar(monkeypatch):
    monkeypatch.setattr(attention.Experiment, "bar", lambda self: 0.8)
    outcomes = {job: {"accuracy": 0.5 + 0.1 * job[1], "cpu_s": 2.0} for job in attention.JOBS}
    first, *_ = attention.accuracy_rows(outcomes)
    assert (first.value, first.peer_value) == (pytest.approx(0.6), 0.8)
    assert first.parameters["spread"] == pytest.approx(0.2)
    assert first.parameters["values"] == [0.5, 0.6, 0.7]
    others = attention.other_rows(outcomes)
    assert [row.value for row in others] == [0.5] * 4
    assert others[0].name == "another split: hierarchical attention"


def test_rows_of_recurrent_compare_with_the_full_gru():
    assert set(recurrent.TASKS) == set(comparisons())
    outcomes = {job: {"values": (0.9, 0.92, 0.91)} for job in recurrent.JOBS}
    outcomes["long copy", "without update"] = {"values": (0.2, 0.3, 0.25)}
    rows = {row.name: row for row in recurrent.ablation_rows(outcomes)}
    assert len(rows) == len(recurrent.JOBS)
    worse = rows["accuracy: long copy, without update"]
    assert (worse.value, worse.peer_value) == (pytest.approx(0.25), pytest.approx(0.91))
    assert worse.parameters["differs"]
    assert not rows["accuracy: long copy, without reset"].parameters["differs"]
