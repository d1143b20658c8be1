"""What notebook 08 takes from a record where no hosts can be made."""

import pytest

from helpers import records
from helpers.collectives import ALGORITHMS
from helpers.collectives.on_hosts import growing, recorded
from helpers.records import Row


@pytest.fixture
def folder(tmp_path):
    given = {"rate": 1e8}
    rows = [
        Row(
            f"bandwidth fitted to messages {place}",
            12.0,
            "MB/s",
            parameters=given | {"alpha": alpha, "beta": 8e-8},
        )
        for place, alpha in (("between hosts", 1e-3), ("inside", 1e-6))
    ]
    rows += [
        Row(
            f"{name} on 4 hosts",
            factor * size,
            "ms",
            "the prediction",
            1.0,
            given | {"bytes": size, "placement": seating},
        )
        for name in ALGORITHMS
        for size in (1_000, 2_000)
        for seating, factor in (("block", 1.0), ("cyclic", 2.0))
    ]
    rows += [
        Row("ring, more hosts", 10.0 * n, "ms", "the prediction", 9.0 * n, given | {"hosts": n})
        for n in (3, 2)
    ]
    records.write(records.make({"links": rows}, "test"), tmp_path)
    return tmp_path


def test_the_seating_side_by_side_is_what_is_given(folder):
    between, inside, seconds = recorded(1e8, [2_000, 1_000], folder)
    assert (between.alpha, inside.alpha) == (1e-3, 1e-6)
    assert (between.name, inside.name) == ("between hosts", "inside a host")
    assert seconds == {name: [2.0, 1.0] for name in ALGORITHMS}


def test_numbers_of_hosts_come_in_order(folder):
    hosts, measured, predicted = growing(1e8, folder)
    assert hosts == [2, 3]
    assert measured == {"ring": [0.02, 0.03]}
    assert predicted["ring"] == pytest.approx([0.018, 0.027])


def test_what_no_record_has_is_said(folder, tmp_path):
    for ask in (
        lambda: recorded(1e9, [1_000], folder),
        lambda: recorded(1e8, [5], folder),
        lambda: recorded(1e8, [1_000], tmp_path / "empty"),
        lambda: growing(1e9, folder),
    ):
        with pytest.raises(ValueError, match="no record in"):
            ask()
