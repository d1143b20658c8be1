"""helpers.predictions: what a reader said beside what came out."""

import numpy as np
import pytest

from helpers import predictions
from helpers.predictions import Prediction


@pytest.mark.parametrize(
    ("said", "measured", "words"),
    [
        (None, 3.0, "it: you predicted nothing; it is 3"),
        (None, 0.1234, "it is 0.123"),
        (None, 2.5e7, "it is 2.5e+07"),
        (10, 11.0, ": right"),
        (10, 40.0, "4 times your number"),
        (0, 2.5, "you predicted 0; it is 2.5"),
        (0, 0, ": right"),
        (10, np.float32(40.04), "it is 40, 4 times your number"),
        (768, 1152, "it is 1,152"),
        (-1, float("inf"), "you predicted -1"),
        (" Vectors ", "vectors", ": right"),
        (3, "vectors", ": no"),
        ("plain and GRU", {"GRU", "plain"}, ": right"),
        (["plain"], {"GRU", "plain"}, "it is GRU, plain: no"),
        ("1, 2, 3", "3, 1, 2", ": no"),  # an order
        ("ring > tree", "ring < tree", ": no"),
        ("a two level halving", "two_level, halving", ": right"),
        ("two level", "two_level, halving", ": no"),
    ],
)
def test_the_answer_stands_beside_the_prediction(said, measured, words, capsys):
    Prediction("it", said).answer(measured)
    assert words in capsys.readouterr().out


def test_what_nobody_predicted_is_folded():
    shown = predictions.Folded("a < b", "3 ms")._repr_html_()
    assert shown.startswith("<details")
    assert "<summary>a &lt; b: what do you predict?</summary>" in shown
    assert "3 ms" in shown.partition("</summary>")[2]
