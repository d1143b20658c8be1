"""The suite that trains for minutes: it goes on where it stopped, and counts only whole pieces."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench import attention


def pretend(folder, job):
    """Leave an outcome as a training would, in no time."""
    outcome = {"accuracy": 0.5 + 0.1 * job[1], "cpu_s": 2.0}
    attention._file(folder, job).write_text(json.dumps(outcome), encoding="utf-8")
    return 60.0


def fail(folder, job):
    raise RuntimeError(f"no memory for {job[0]}")


def test_it_goes_on_where_it_stopped(tmp_path, capsys):
    first = attention.train(tmp_path, 30, pretend, ThreadPoolExecutor)  # one a core, "60 s" each
    assert 0 < len(first) < attention.SEEDS * len(attention.MODELS)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    done = attention.train(tmp_path, work=pretend, executor=ThreadPoolExecutor)
    assert len(done) == attention.SEEDS * len(attention.MODELS)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert f"{len(first)} of 12 trainings are there" in capsys.readouterr().out


def test_a_training_that_fails_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="no memory for"):
        attention.train(tmp_path, work=fail, executor=ThreadPoolExecutor)


def test_rows_hold_median_spread_and_bar(monkeypatch):
    monkeypatch.setattr(attention.Experiment, "bar", lambda self: 0.8)
    outcomes = {
        (name, seed): {"accuracy": 0.5 + 0.1 * seed, "cpu_s": 2.0}
        for name in attention.MODELS
        for seed in range(attention.SEEDS)
    }
    first, *_ = attention.accuracy_rows(outcomes)
    assert (first.value, first.peer_value) == (pytest.approx(0.6), 0.8)
    assert first.parameters["spread"] == pytest.approx(0.2)
    assert first.parameters["values"] == [0.5, 0.6, 0.7]


def test_other_code_or_data_are_other_pieces(monkeypatch):
    here = attention.pieces()
    assert here == attention.pieces()
    monkeypatch.setattr(attention, "machine", lambda: {"name": "another"})
    assert attention.pieces() != here
