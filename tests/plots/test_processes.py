"""The drawing of kernel, ranks and cores shows as many as there are."""

import pytest

from helpers.plots.processes import processes


@pytest.mark.parametrize(("cores", "ranks", "shown"), [(1, 4, 1), (2, 4, 2), (8, 3, 8), (64, 1, 7)])
def test_every_rank_and_core_is_named(cores, ranks, shown):
    texts = [text.get_text() for text in processes(cores, ranks).texts]
    assert [t for t in texts if t.startswith("rank")] == [f"rank {r}" for r in range(ranks)]
    assert [t for t in texts if t.startswith("core")] == [f"core {c}" for c in range(shown)]
    assert ("…" in texts) == (shown < cores)


@pytest.mark.parametrize("bad", [(0, 4), (2, 0)])
def test_nothing_to_draw_is_refused(bad):
    with pytest.raises(ValueError, match=f"got {bad[0]} and {bad[1]}"):
        processes(*bad)
