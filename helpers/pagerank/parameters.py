"""What pagerank is told besides the graph, checked: settings, NetworkX's names, distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from helpers.pagerank.graphs import Links, is_networkx

DAMPING, TOLERANCE, ITERATIONS = 0.85, 1e-10, 200
THEIRS = {"alpha": "damping", "tol": "tolerance", "max_iter": "max_iterations"}


@dataclass(frozen=True)
class Stopping:
    """The damping d, and when to stop: at an L1 change, or after so many iterations."""

    damping: float
    tolerance: float
    max_iterations: int


def stopping(graph, ours: dict, theirs: dict) -> Stopping:
    """Return the settings from our names or, for a NetworkX graph, from NetworkX's.

    ``ours``: damping, tolerance, max_iterations; ``theirs``: alpha, tol, max_iter; None where not
    given. NetworkX's ``tol`` counts for each node: the tolerance is N times that. Raises
    ValueError for a value out of range, both names of one setting, and theirs without their graph.
    """
    chosen = {"damping": DAMPING, "tolerance": TOLERANCE, "max_iterations": ITERATIONS}
    chosen |= {name: value for name, value in ours.items() if value is not None}
    called = {name: name for name in chosen}  # as the caller wrote it
    for name, value in theirs.items():
        own = THEIRS[name]
        if value is None:
            continue
        if not is_networkx(graph):
            raise ValueError(
                f"{name} is NetworkX's name, taken with a NetworkX graph: write {own}; "
                f"got {name}={value!r} with a {type(graph).__name__}"
            )
        if ours[own] is not None:
            raise ValueError(f"pagerank expects {own} or {name}, not both; got {value!r} for both")
        chosen[own], called[own] = value, name
    _real(called["damping"], chosen["damping"], "0 <= {} < 1", lambda d: 0 <= d < 1)
    _real(called["tolerance"], chosen["tolerance"], "{} > 0", lambda t: t > 0)
    limit = chosen["max_iterations"]
    if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 1:
        name = called["max_iterations"]
        raise ValueError(f"pagerank expects {name} to be a whole number >= 1; got {limit!r}")
    if called["tolerance"] == "tol":
        chosen["tolerance"] *= len(graph)
    return Stopping(**chosen)


def _real(name, value, expected, fits) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not fits(value):
        raise ValueError(f"pagerank expects {expected.format(name)}; got {value!r}")


def real_type(dtype) -> np.dtype:
    """Return float32 or float64; raises ValueError for another ``dtype``."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.name not in ("float32", "float64"):
        raise ValueError(f"pagerank expects dtype float32 or float64; got {dtype!r}")
    return found


def check_device(method: str, device, kinds: tuple[str, ...]) -> None:
    """Raise ValueError unless ``device`` names a device on which ``method`` runs."""
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise ValueError(f"pagerank expects a device such as 'cpu' or 'cuda:0'; got {device!r}")
    if kind not in kinds:
        raise ValueError(f"method {method!r} runs on the CPU; for {device!r} use method='torch'")


def distribution(graph: Links, given, called: str) -> np.ndarray:
    """Return weights of the nodes scaled to the sum 1, shape (N,), float64; 1/N each for None.

    ``given``: a dict from node to weight (absent: 0), or an array (N,). ``called``: the parameter,
    for messages. Raises ValueError for unknown nodes and weights that are no distribution.
    """
    n = graph.nodes
    if given is None:
        return np.full(n, 1.0 / n)
    if isinstance(given, Mapping):
        weights = np.zeros(n)
        for name, value in given.items():
            weights[_number(graph, name, called)] = _weight(value, called)
    else:
        weights = _array(given, called)
        if weights.shape != (n,):
            raise ValueError(f"{called} expects shape ({n},); got {weights.shape}")
    bad = weights[~(np.isfinite(weights) & (weights >= 0))]
    if bad.size or not weights.any():
        got = f"got {bad[0]}" if bad.size else "all are 0"
        raise ValueError(f"{called} expects finite weights >= 0, not all 0; {got}")
    weights = weights / weights.max()  # first: the sum of the largest weights is no number
    return weights / weights.sum()


def _number(graph: Links, name, called: str) -> int:
    if graph.names is not None:
        if name in graph.numbers:
            return graph.numbers[name]
    elif isinstance(name, Real) and 0 <= name < graph.nodes and name == int(name):
        return int(name)
    raise ValueError(f"{called} names {name!r}, which is no node of the graph")


def _weight(value, called: str) -> float:
    if isinstance(value, str) or not isinstance(value, Real):
        raise ValueError(f"{called} expects a number for each node; got {value!r}")
    return float(value)


def _array(given, called: str) -> np.ndarray:
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{called} expects a dict from node to weight or an array; got {given!r}"
        ) from None
