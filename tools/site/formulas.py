"""Formulas as MathML, which browsers draw themselves."""

from __future__ import annotations

import math_core


class FormulaError(ValueError):
    """A formula that cannot be read; the message repeats it and says why."""


def mathml(latex: str, *, display: bool) -> str:
    """Return an element ``math`` for a formula without dollar signs, or raise FormulaError."""
    converter = math_core.LatexToMathML(fancy_error=False)
    try:
        return converter.convert_with_local_state(latex.strip(), displaystyle=display)
    except math_core.LatexError as error:
        raise FormulaError(f"cannot read the formula {latex.strip()!r}: {error}") from None
