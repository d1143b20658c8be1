"""A compressor of gradients, as in notebook 12's project.

A linear model of 8192 parameters is trained with error feedback and noisy gradients until its loss
is 5 % of the first. The time that counts is steps × (bytes ÷ 100 Mbit/s + encoding + adding).
"""

import numpy as np


class Half:
    """Half precision: 2 bytes for each value."""

    def nbytes(self, n):
        """Return the length of the code of n values."""
        return 2 * n

    def encode(self, v):
        """Return the code of v, a flat array of uint8; v stays as it is."""
        return v.astype(np.float16).view(np.uint8)

    def add(self, code, out):
        """Add to out what the code stands for; it may come from another rank."""
        out += code.view(np.float16)


def compressor():
    """Return a compressor: one object for each rank."""
    return Half()
