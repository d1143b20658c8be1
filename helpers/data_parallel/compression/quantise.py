"""QSGD's rounding as its definition reads (Alistarh et al., 2017), in NumPy.

Q_s(v_i) = ‖v‖₂ · sgn(v_i) · ξ_i, where ξ_i is one of the two whole multiples of 1/s beside
``|v_i|`` / ‖v‖₂: the upper one with the probability of the fraction, so that the mean is right.
"""

from __future__ import annotations

import math

import numpy as np


def quantise(v: np.ndarray, levels: int, random: np.ndarray) -> np.ndarray:
    """Return Q_s(v) as whole levels, −s to s. Times ‖v‖₂ / s they are Q_s(v).

    >>> quantise(np.array([3.0, -4.0]), 1, np.array([0.5, 0.1]))  # 3/5 + 0.5 >= 1, 4/5 + 0.1 < 1
    array([1, 0])

    Parameters
    ----------
    v : (n,) numpy.ndarray
        Values that share one norm.
    levels
        s.
    random : (n,) numpy.ndarray
        Numbers from [0, 1).
    """
    if levels < 1 or v.ndim != 1 or v.shape != random.shape:
        raise ValueError(
            f"quantise expects levels >= 1 and as many random numbers as values; got {levels}, "
            f"{random.shape} for {v.shape}"
        )
    norm = float(np.linalg.norm(v))
    if norm == 0:
        return np.zeros(len(v), np.int64)
    level = np.floor(np.abs(v) / norm * levels + random)
    return (np.sign(v) * np.minimum(level, levels)).astype(np.int64)


def variance(v: np.ndarray, levels: int) -> float:
    """Return the mean of ‖Q_s(v) − v‖², exactly, of values that share one norm.

    Σ (‖v‖/s)² · p(1 − p), p the fraction of ``|v_i|`` s / ‖v‖.
    """
    norm = float(np.linalg.norm(v))
    fraction = np.abs(v) / norm * levels % 1 if norm else np.zeros(1)
    return float(np.sum(fraction * (1 - fraction))) * (norm / levels) ** 2


def bound(n: int, levels: int) -> float:
    """Return the factor min(n/s², √n/s) of ‖v‖² that the variance never exceeds (lemma 3.1).

    >>> bound(512, 1) > 22, bound(4, 4)
    (True, 0.25)
    """
    return min(n / levels**2, math.sqrt(n) / levels)
