"""helpers.records: the schema, its errors, writing and loading."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers import records
from helpers.records import Record, Row, SchemaError

MACHINE = {
    "name": "Test CPU, 2 cores",
    "os": "Debian 12",
    "architecture": "x86_64",
    "cpu": "Test CPU",
    "cores": 2,
    "memory_gib": 24.0,
    "mpi": "MPICH 5.0.2",
    "compiler": "g++ 12.2.0",
    "gpus": [],
}


def a_record(**changes):
    made = Record(
        MACHINE,
        {"python": "3.11.7"},
        "2026-11-21T03:00:00Z",
        "make bench",
        {"cluster": (Row("start", 2.5, "s", "ipyparallel", 6.7, {"n": 4}),)},
    )
    return replace(made, **changes)


def changed(path, value):
    """Return a record's JSON form with the value at ``path`` replaced (or removed if it is ...)."""
    data = json.loads(json.dumps(a_record().as_dict()))
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


def test_ratio_is_ours_over_the_peer():
    assert Row("start", 1.0, "s", "plain", 4.0).ratio == 0.25
    assert Row("start", 1.0, "s", "CuPy").ratio is None
    assert Row("start", 1.0, "s", "nothing", 0.0).ratio is None


def test_numpy_scalars_become_plain_numbers():
    row = Row("x", np.float32(0.5), "s", "y", np.int64(2), {"n": np.int64(4), "shape": (1, 2)})
    assert json.loads(json.dumps(vars(row)))["parameters"] == {"n": 4, "shape": [1, 2]}
    assert (row.value, row.peer_value) == (0.5, 2)


WRONG = [float("nan"), None, "fast", True]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        *((("start", v, "s"), r"Row\('start'\)\.value: expected .*number") for v in WRONG),
        (("start", 1.0, "s", "", 2.0), "needs a peer's name"),
        (("", 1.0, "s"), r"\.name: expected a string that is not empty"),
    ],
)
def test_a_wrong_row_is_refused_when_it_is_made(row, message):
    with pytest.raises(SchemaError, match=message):
        Row(*row)


def test_round_trip_and_never_over_another_run(tmp_path):
    first, second = records.write(a_record(), tmp_path), records.write(a_record(), tmp_path)
    assert first.name == "test-cpu-2-cores-2026-11-21T030000Z.json"
    assert first != second
    assert records.load(tmp_path) == 2 * [a_record()]


def test_load_is_newest_first(tmp_path):
    old = a_record(date="2026-11-20T03:00:00Z", suites={"sgd": (Row("loss", 1.0, "1"),)})
    for one in (old, a_record()):
        records.write(one, tmp_path / "deeper")
    assert records.load(tmp_path) == [a_record(), old]
    assert records.load(tmp_path, "sgd") == [old]
    assert records.load(tmp_path / "absent") == []


BREAKS = [
    (["schema"], 2, "record.schema: expected 1, got 2"),
    (["date"], "yesterday", "record.date: expected a string like"),
    (["machine", "cores"], 2.5, "record.machine.cores: expected integer, got 2.5"),
    (["machine", "cores"], 0, "record.machine.cores: expected a number of at least 1, got 0"),
    (["machine", "gpus"], "none", "record.machine.gpus: expected array, got 'none'"),
    (["machine", "gpus"], [{"name": "H200"}], r"record.machine.gpus\[0\]: 'driver' is missing"),
    (["machine", "colour"], "red", "record.machine: unknown key 'colour'"),
    (["versions", "torch"], 2.13, "record.versions.torch: expected string, got 2.13"),
    (["suites"], [], r"record.suites: expected object, got \[\]"),
    (["suites", "cluster", 0, "peer_value"], "6", "expected number or null, got '6'"),
    (
        ["suites", "cluster", 0, "parameters"],
        {"n": float("nan"), "deep": [1]},
        r"\[0\]\.parameters\.n: expected a finite number, got nan",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), BREAKS)
def test_a_broken_record_says_where(path, value, message):
    data = changed(path, value)
    with pytest.raises(SchemaError, match=message):
        records.validate(data)


def test_the_newest_record_that_holds_it_answers(tmp_path):
    for day, suites in enumerate([{"sgd": 1.0}, {"sgd": 2.0}, {"sgd": 3.0, "x": 0.0}, {"y": 4.0}]):
        rows = {name: (Row("loss", value, "1"),) for name, value in suites.items()}
        records.write(a_record(date=f"2026-11-2{day}T03:00:00Z", suites=rows), tmp_path)

    def of_a_loss_below(limit):
        find = lambda one, rows: [r.value for r in rows if r.value < limit] and (one.date, rows)  # noqa: E731
        return records.newest(tmp_path, "sgd", find)

    assert of_a_loss_below(10) == ("2026-11-22T03:00:00Z", (Row("loss", 3.0, "1"),))
    assert of_a_loss_below(3) == ("2026-11-21T03:00:00Z", (Row("loss", 2.0, "1"),))
    assert of_a_loss_below(1) is None
    assert records.newest(tmp_path / "absent", "sgd", lambda one, rows: one) is None


def test_a_file_that_is_no_record_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    with pytest.raises(SchemaError, match=r"a\.json: not JSON"):
        records.load(tmp_path)


def test_a_record_of_this_machine_is_valid():
    made = records.make({"sgd": [Row("x", 1.0, "s")]}, "make bench")
    records.validate(made.as_dict())
    assert made.machine["cores"] >= 1
    assert made.machine["memory_gib"] > 0
    assert made.versions["numpy"] == np.__version__


def test_every_record_in_the_repository_is_valid(request):
    for folder in ("bench", "gpu"):
        for one in records.load(request.config.rootpath / "data" / folder):
            assert one.suites
