"""This machine's ceilings, and kernels under them: the roofline model (Williams et al. 2009)."""

from helpers.roofline.model import Point, place

__all__ = ["Point", "place"]
