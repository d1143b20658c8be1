"""What the notebook asks of its ranks, on two of them."""

import pytest

from helpers.models.transformer import Config
from helpers.sharded import zero
from tests.mpi.runner import run_ranks

CONFIG = Config(vocabulary=32, context=16, layers=2, heads=4, width=16)


def everything():
    from helpers.sharded import runs, ways

    return {
        "stages": runs.stages(CONFIG, 8),
        "splits": ways.splits(CONFIG, 4),
        "dropout": {mistake: ways.dropout(mistake) for mistake in ("", "different", "equal")},
        "spans": [runs.prefetched(CONFIG, 4, prefetch, 5.0) for prefetch in (False, True)],
        "link": ways.link(1 << 12, 2),
    }


@pytest.mark.mpi
def test_on_two_ranks():
    found = run_ranks(2, everything, timeout=150)[0]
    losses = [stage["loss"] for stage in found["stages"]]
    assert losses == pytest.approx([losses[0]] * 4, abs=1e-5)
    for number, stage in enumerate(found["stages"]):
        total = sum(stage["held"].values())
        expected = zero.at_rest(number, 2).total * stage["parameters"]
        assert total == pytest.approx(expected, rel=0.01)
        assert stage["messages"] == zero.messages(number, 2, stage["units"])
    for name, way in found["splits"].items():
        assert way["messages"] == way["formula"].messages, name
        if "experts" not in name:  # their bytes follow the gate
            assert way["bytes"] == pytest.approx(way["formula"].bytes, rel=0.02), name
        assert way["waited"] > 0
    right, different, equal = (found["dropout"][m] for m in ("", "different", "equal"))
    assert right[0] == 0.0
    assert 0.3 < right[1] < 0.7
    assert different[0] > 0.01
    assert equal == (0.0, 1.0)
    for took, spans in found["spans"]:
        names = [span.name for span in spans]
        assert took > 8 * 5e-3
        assert sum(name.startswith("gather") for name in names) == 2 * CONFIG.pieces
        assert sum(name.startswith("reduce") for name in names) == CONFIG.pieces
    assert found["link"][0] > 0
