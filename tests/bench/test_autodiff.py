"""The graph's suite: what it counts is right; what it times needs a quiet machine."""

import numpy as np
import pytest

from bench import autodiff as suite


def test_the_sources_convolutions_by_count():
    by_name = {row.name.split(": ")[1]: row for row in suite.count_rows()}
    assert by_name["all kept"].value == pytest.approx(suite.SOURCE_KEPT, rel=1e-3)
    assert by_name["√n segments"].parameters["forwards"] < 2 * 10_000
    assert by_name["√n segments"].value < 2 * suite.SOURCE_SUBLINEAR
    assert by_name["optimal in the source's memory"].value <= suite.SOURCE_SUBLINEAR


@pytest.mark.parametrize("name", ["all kept", "√n segments"])
def test_predicted_and_counted_memory_of_a_chain_are_equal(name):
    outcome = suite.our_chain(9, name)
    assert outcome["predicted"] == outcome["counted"]
    kept = suite.our_chain(9, "all kept")["counted"]
    assert outcome["counted"] == kept if name == "all kept" else outcome["counted"] < kept


def test_each_chains_text_says_what_its_function_does():
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 50))
    for chain, text in suite.CHAINS.values():
        names = {"x": x, "y": y, "tanh": np.tanh, "exp": np.exp}
        np.testing.assert_allclose(eval(text, names), chain(x, y, np), 1e-12)
