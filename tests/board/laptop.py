"""A student's laptop, as a process: ``python -m tests.board.laptop ADDRESS CODE NUMBER HOW``."""

import os
import sys
from pathlib import Path

from helpers import board
from helpers.exercises.core import exercise
from helpers.exercises.predictions import Predictions


@exercise
def double(answer):
    """answer(x) -> 2 x."""
    assert answer(2) == 4


def main(address, code, number, how):
    notebook = Path("01_mpi_basics.ipynb").absolute()
    notebook.write_text('{"cells": []}')
    os.environ["JPY_SESSION_NAME"] = str(notebook)
    board.join(address, code, name="Ada" if number == 3 else "")
    guess = Predictions()
    guess["speed-up on 4 ranks"] = 1 + number % 4
    guess["<b>who</b> waits"] = "<img src=x onerror=alert(1)>" if number == 0 else "rank 0"
    if how == "flood":
        for turn in range(2000):
            board.offer("flood", value=turn)
    print("predicted", flush=True)
    sys.stdin.readline()  # the class goes on
    guess.answer("speed-up on 4 ranks", 1.5 + number / 100)
    guess["speed-up on 4 ranks"] = 1.5  # too late
    board.offer("a message", **{"α [s]": 2e-6 * (1 + number), "1/β [B/s]": 1e9 + 1e7 * number})
    double(lambda x: 2 * x)
    if how == "leave":
        assert board.flush(10) == 0
        board.withdraw()
    print("left", 0 if how == "flood" else board.flush(30), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
