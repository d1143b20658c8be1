"""What the reader expects before a cell runs: typed in, kept, and answered beside the result.

>>> guess = Predictions()
>>> guess["speed-up on 4 ranks"] = 3.5
>>> guess.answer("speed-up on 4 ranks", 1.9)
speed-up on 4 ranks: you predicted 3.5; it is 1.9, 0.543 times your number
"""

from __future__ import annotations

from helpers import board, predictions


class Predictions(dict):
    """The reader's predictions by name; ``None`` or ``...`` stands for none."""

    def __setitem__(self, name: str, said: object) -> None:
        super().__setitem__(name, said)
        board.said(name, said)

    def answer(self, name: str, result: object) -> None:
        """Print what was predicted beside what came out, which is folded where nothing was."""
        if name not in self:
            asked = ", ".join(map(repr, self)) or "nothing yet"
            raise KeyError(f"expected the name of a prediction ({asked}); got {name!r}")
        predictions.answer(name, self[name], result)
