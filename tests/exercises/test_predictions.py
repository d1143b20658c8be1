import pytest

from helpers.exercises.predictions import Predictions


def test_a_prediction_is_kept_and_answered(capsys):
    guess = Predictions()
    guess["speed-up"], guess["who"], guess["left open"] = 4, "rank 0", ...
    guess.answer("speed-up", 1.9)
    guess.answer("who", "rank 3")
    guess.answer("left open", 7)
    assert capsys.readouterr().out.splitlines() == [
        "speed-up: you predicted 4; it is 1.9, 2.1 times as little",
        "who: you predicted rank 0; it is rank 3",
        "left open: you predicted nothing; it is 7",
    ]


def test_near_is_not_remarked_and_zero_has_no_ratio(capsys):
    guess = Predictions(near=2.1, none=0)
    guess.answer("near", 2.0)
    guess.answer("none", 3.0)
    assert capsys.readouterr().out == (
        "near: you predicted 2.1; it is 2\nnone: you predicted 0; it is 3\n"
    )


def test_what_was_never_asked():
    with pytest.raises(KeyError, match=r"'speed-up'.*got 'speed'"):
        Predictions({"speed-up": 1}).answer("speed", 2)


def test_a_number_of_three_digits_is_shown_whole(capsys):
    guess = Predictions()
    guess["MB"] = ...
    for result in (199.8, 133.4, 0.1234, 2.5e7):
        guess.answer("MB", result)
    shown = [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["200", "133", "0.12", "2.5e+07"]
