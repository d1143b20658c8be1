"""The bench of cells: what a kernel shows is counted, what it does not do is an error."""

import sys

import pytest

from bench import cells


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(cells, "LINE", cells.EMPTY)  # the first cell's output is taken away
    kernel = cells.Session([sys.executable, "-m", "ipykernel_launcher"], magic="%%capture kept")
    yield kernel
    kernel.close()


def test_what_is_shown_is_counted_and_what_is_not_or_fails_is_an_error(session):
    assert session.started > 0
    with pytest.raises(RuntimeError, match="showed nothing"):
        session.on_ranks("print(1)")
    session.magic = ""
    short, long = session.on_ranks("print(1)"), session.on_ranks("print('x' * 1000)")
    assert long.shown - short.shown == 999
    assert 0 < short.seconds < 60
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        session.on_ranks("1 / 0")


def test_without_the_peer_its_column_is_empty():
    row = cells._row("empty cell", "ms", [[3.0, 1.0, 2.0]])
    assert (row.value, row.peer_value, row.ratio) == (2.0, None, None)
    row = cells._row("empty cell", "ms", [[3.0, 1.0, 2.0], [4.0]])
    assert row.ratio == 0.5
