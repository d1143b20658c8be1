"""Sizes that may be symbols: ``"n"`` is known when the graph runs, ``3*n + 1`` then follows.

A size is an ``int`` or a :class:`Size`, a polynomial with integer coefficients over symbols and
over quotients that do not come out even. It is kept in one normal form, so that two sizes that are
the same polynomial compare equal: ``n + n`` is ``2*n``, ``6*n // 3`` is ``2*n``.

>>> n = symbol("n")
>>> (n + 1) * 2, (2 * n) // 2, (n // 2) * 2 == n
(2 + 2*n, n, False)
>>> resolve((n // 2, 3, n * n), {"n": 5})
(2, 3, 25)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Quotient:
    """A division that the symbols leave open, rounded down."""

    over: int | Size
    under: int | Size

    def __repr__(self) -> str:
        both = self.over, self.under
        return "//".join(f"({each})" if " " in repr(each) else repr(each) for each in both)


@dataclass(frozen=True)
class Size:
    """A polynomial of terms (factors, coefficient); make one with :func:`symbol` and arithmetic."""

    terms: frozenset[tuple[tuple[Any, ...], int]]

    def __add__(self, other: int | Size) -> int | Size:
        total = Counter(dict(self.terms))
        for factors, coefficient in _terms(other):
            total[factors] += coefficient
        return _size(total)

    def __mul__(self, other: int | Size) -> int | Size:
        total: Counter = Counter()
        for ours, a in self.terms:
            for theirs, b in _terms(other):
                total[tuple(sorted(ours + theirs, key=repr))] += a * b
        return _size(total)

    def __sub__(self, other: int | Size) -> int | Size:
        return self + (-1) * other

    def __rsub__(self, other: int) -> int | Size:
        return (-1) * self + other

    def __floordiv__(self, other: int | Size) -> int | Size:
        return _quotient(self, other)

    def __rfloordiv__(self, other: int) -> int | Size:
        return _quotient(other, self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __repr__(self) -> str:
        words = []
        for factors, coefficient in sorted(self.terms, key=lambda term: (len(term[0]), repr(term))):
            number = [] if coefficient == 1 and factors else [str(coefficient)]
            words.append("*".join(number + [f if isinstance(f, str) else repr(f) for f in factors]))
        return " + ".join(words).replace("+ -", "- ")


def _terms(size: int | Size) -> Iterable[tuple[tuple[Any, ...], int]]:
    return size.terms if isinstance(size, Size) else (((), size),)


def _size(terms: Mapping[tuple[Any, ...], int]) -> int | Size:
    """Return the normal form: no zero terms, and an ``int`` where no symbol is left."""
    kept = {factors: coefficient for factors, coefficient in terms.items() if coefficient}
    if not kept.keys() - {()}:
        return kept.get((), 0)
    return Size(frozenset(kept.items()))


def _quotient(over: int | Size, under: int | Size) -> int | Size:
    """Divide; by a single term that divides each term of the dividend the result is exact."""
    if isinstance(under, int) and under <= 0:
        raise ValueError(f"a size divides by a positive one; got {under}")
    if over == under:
        return 1
    divisor = list(_terms(under))
    if len(divisor) == 1:
        (factors, by), exact = divisor[0], {}
        for ours, coefficient in _terms(over):
            rest = Counter(ours)
            rest.subtract(Counter(factors))
            if coefficient % by or min(rest.values(), default=0) < 0:
                break
            exact[tuple(sorted(rest.elements(), key=repr))] = coefficient // by
        else:
            return _size(exact)
    return Size(frozenset({((Quotient(over, under),), 1)}))


def symbol(name: str) -> Size:
    """Return the size that a name stands for."""
    if not name.isidentifier():
        raise ValueError(f"a symbolic size expects a name such as 'n'; got {name!r}")
    return Size(frozenset({((name,), 1)}))


def shape_of(sizes: Iterable[int | str | Size]) -> tuple[int | Size, ...]:
    """Return a shape with each name made a symbol."""
    shape = tuple(symbol(s) if isinstance(s, str) else s for s in sizes)
    for size in shape:
        if not isinstance(size, Size) and (size != int(size) or size < 0):
            raise ValueError(f"a shape expects sizes of 0 or more; got {shape}")
    return tuple(size if isinstance(size, Size) else int(size) for size in shape)


def count(shape: Iterable[int | Size]) -> int | Size:
    """Return how many elements a shape has."""
    return prod(shape, start=1)  # type: ignore[arg-type,return-value]


def resolve(value: Any, bindings: Mapping[str, int]) -> Any:
    """Put numbers for the symbols in a size or in a tuple; what is no size stays as it is."""
    if isinstance(value, tuple):
        return tuple(resolve(each, bindings) for each in value)
    if isinstance(value, Quotient):
        return resolve(value.over, bindings) // resolve(value.under, bindings)
    if isinstance(value, Size):
        return sum(
            coefficient
            * prod(bindings[f] if isinstance(f, str) else resolve(f, bindings) for f in factors)
            for factors, coefficient in value.terms
        )
    return value


def symbols(value: Any) -> set[str]:
    """Name the symbols in a size or shape."""
    if isinstance(value, tuple):
        return set().union(*map(symbols, value))
    if isinstance(value, Quotient):
        return symbols((value.over, value.under))
    if isinstance(value, Size):
        factors = tuple(factor for term, _ in value.terms for factor in term)
        return {f for f in factors if isinstance(f, str)} | symbols(
            tuple(f for f in factors if not isinstance(f, str))
        )
    return set()
