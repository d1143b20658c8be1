"""How a part of a page looks: its points, how much it glares, and contrast as WCAG 2.2 has it."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from helpers.plots.dark import luminance

GLARING = 0.2  # mean luminance of a box that stands out of a page of 0.006; paper has 0.9


def looked_at(box) -> np.ndarray:
    """Return what a part of the page looks like: (height, width, 3), 0 to 255."""
    return np.asarray(Image.open(io.BytesIO(box.screenshot())).convert("RGB"))


def glare(picture: np.ndarray) -> float:
    """Return the mean luminance."""
    colours, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
    return float(np.average([luminance(colour / 255) for colour in colours], weights=counts))


def contrast(one, other) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)
