"""What the reader expects before a cell runs: typed in, kept, and answered beside the result.

>>> guess = Predictions()
>>> guess["speed-up on 4 ranks"] = 3.5
>>> guess.answer("speed-up on 4 ranks", 1.9)
speed-up on 4 ranks: you predicted 3.5; it is 1.9, 1.8 times as little
"""

from __future__ import annotations

from helpers import board, progress
from helpers.exercises.core import unattempted
from helpers.predictions import show_folded


class Predictions(dict):
    """The reader's predictions by name; ``None`` or ``...`` stands for none."""

    def __setitem__(self, name: str, said: object) -> None:
        super().__setitem__(name, said)
        if not unattempted(said):
            board.said(name, said)

    def answer(self, name: str, result: object) -> None:
        """Print what was predicted beside what came out, which is folded where nothing was.

        What was predicted before the first answer stays, whatever is typed afterwards.
        """
        if name not in self:
            asked = ", ".join(map(repr, self)) or "nothing yet"
            raise KeyError(f"expected the name of a prediction ({asked}); got {name!r}")
        mine, shown, late = self[name], _shown(result), ""
        board.came(name, result)
        if not unattempted(mine):
            mine, late = progress.settle(name, mine, result)
        if unattempted(mine):
            show_folded(name, shown)
        else:
            apart = _apart(mine, result)
            print(f"{name}: you predicted {_shown(mine)}; it is {shown}{apart}{late}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 10 <= abs(value) < 1e6 else f"{value:.2g}"


def _apart(mine: object, result: object) -> str:
    """Say how far apart two numbers are, where that is worth a word."""
    if not (_is_number(mine) and _is_number(result)):
        return ""
    guess, true = float(mine), float(result)  # type: ignore[arg-type]
    if guess <= 0 or true <= 0:
        return ""
    factor = max(guess / true, true / guess)
    return (
        f", {factor:.2g} times as {'much' if true > guess else 'little'}" if factor > 1.25 else ""
    )
