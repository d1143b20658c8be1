"""helpers.plots.rates: the curves are a record's means, the rings its best rates."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from helpers.claims.recorded import evidence
from helpers.plots.rates import over_rates
from tests.claims.test_claims import CLAIM, TUNED, recorded


def test_a_panel_has_the_rival_once_and_a_curve_for_each_setting(tmp_path):
    recorded(tmp_path, replace(TUNED, ours="mine"))
    read = evidence("99-gap", tmp_path)
    axes = over_rates(read)
    assert [ax.get_title() for ax in axes] == ["small", "large"]
    (ax,) = over_rates(read, {"both": {"a gap of 1": "small", "a gap of 2": "large"}})
    drawn = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert list(drawn) == ["theirs", "a gap of 1", "a gap of 2"]
    x, y = drawn["a gap of 1"].get_data()
    assert list(x) == [1, 2, 4, 8, 16]
    np.testing.assert_allclose(y, [14, 13, 11, 15, 23], atol=0.05)
    rings = [line.get_xdata()[0] for line in ax.lines if line.get_label().startswith("_")]
    assert rings == [1, 4, 4]
    plt.close("all")


def test_a_claim_without_a_grid_is_refused(tmp_path):
    recorded(tmp_path, CLAIM)
    with pytest.raises(ValueError, match="expects a claim with a grid of rates"):
        over_rates(evidence("99-gap", tmp_path))
