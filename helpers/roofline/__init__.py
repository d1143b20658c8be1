"""This machine's ceilings, and kernels under them: the roofline model (Williams et al. 2009)."""

from helpers.roofline.model import Point, attainable, place

__all__ = ["Point", "attainable", "place"]
