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
        (..., 3.0, "it: you predicted nothing; it is 3"),
        ("H = 2", 2, ": right"),
        ("10^-18", 7.9e-19, ", 0.79 times your number"),
        ("2 × 10**-18", 7.9e-19, "it is 7.9e-19\n"),
        ("explode", "explodes", ": right"),
        ("it vanishes", "explodes", ": no"),
        ("H=2", 4, ", 2 times your number"),
        ("1,000", 1024.0, ": right"),
        ("1,000", 1024, "it is 1,024: near, 24 more than your number"),
        (1024, 1023, ": near, 1 less than your number"),
        (1023, 1023, ": right"),
        (1.5, 1.6, ": right"),
        ([3, 2, 1], "3, 2, 1", ": right"),
        ((3, 2, 1), "3, 2, 1", ": right"),
        ("rank 3, 2, 1", "3, 2, 1", ": right"),
        ("ranks 3 → 2 → 1", "3, 2, 1", ": right"),
        ([1, 2, 3], "3, 2, 1", ": no"),
        ("rank 3", 3, ": right"),
        ("Rank 2", 3, ", 1.5 times your number"),
        ("about 3", 3.1, ": right"),
        (False, "no", "you predicted False; it is no: right"),
        (True, "no", ": no"),
        ("yes", True, ": right"),
        ("3x", 3.1, ": right"),
        ("120 %", 1.2, ": right"),
        ("64 kB", 65536, "you predicted 64 kB; it is 65,536\n"),  # of bytes: the reader compares
        ("2 or 3", 2.5, "it is 2.5\n"),
        (5, 6, ", 1.2 times your number"),  # a small count is exact
        (-0.1, -0.11, ": right"),
        (0.1, -0.1, "it is -0.1\n"),
    ],
)
def test_the_answer_stands_beside_the_prediction(said, measured, words, capsys):
    Prediction("it", said).answer(measured)
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("of", "said", "measured", "words"),
    [
        ("accuracy", 1.0, 0.8, ", 0.2 less than your number"),
        ("accuracy", 0.9, 0.8, ", 0.1 less than your number"),
        ("accuracy", 0.85, 0.859, ": right"),
        ("accuracy", "85 %", 0.859, "you predicted 85 %; it is 0.859: right"),
        ("accuracy", 85, 0.859, ": right"),
        ("accuracy", "0.5 %", 0.4, ", 0.395 more than your number"),
        ("idle share", 0, 0.01, ", 0.01 more than your number"),
        ("idle share", 0.01, 0.04, ", 0.03 more than your number"),
        ("per cent of −1", "50 %", 53.0, ": right"),
        ("bytes that disappear (%)", 75, 87.5, ", 12.5 more than your number"),
        ("one process ÷ four ranks that share its work", 1, 0.85, ": right"),  # a ratio
        ("the largest 1 % ÷ all", 1.0, 1.2, ": right"),
        ("peak, MB", "2 MB", 2.0, ": right"),
        ("ms of Send", "3 s", 3.0, "you predicted 3 s; it is 3\n"),
    ],
)
def test_a_share_is_judged_by_its_distance(of, said, measured, words, capsys):
    Prediction(of, said).answer(measured)
    assert words in capsys.readouterr().out


def test_what_nobody_predicted_is_folded():
    shown = predictions.Folded("a < b", "3 ms")._repr_html_()
    assert shown.startswith("<details")
    assert "<summary>a &lt; b: what do you predict?</summary>" in shown
    assert "3 ms" in shown.partition("</summary>")[2]
