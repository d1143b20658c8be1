"""Words in a figure are read by everybody: the contrast that WCAG 2.2 asks for, 4.5 to 1."""

import doctest

import pytest
from matplotlib.colors import to_rgb

from helpers.plots import style
from helpers.plots.processes import processes


def luminance(colour):
    red, green, blue = (
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_examples():
    assert doctest.testmod(style).failed == 0


@pytest.mark.parametrize("colour", [*style.PALETTE, style.GREY, "#757575", "white"])
def test_text_is_read_on_and_in_every_colour(colour):
    assert contrast(style.ink(colour), colour) >= 4.5
    assert contrast(style.legible(colour), "white") >= 4.5


def test_the_ranks_in_their_boxes_are_read():
    ax = processes(2, ranks=6)
    boxes = [patch for patch in ax.patches if hasattr(patch, "get_boxstyle")]
    for text in [text for text in ax.texts if text.get_text().startswith("rank ")]:
        (under,) = [box for box in boxes if box.get_bbox().contains(*text.get_position())]
        assert contrast(text.get_color(), under.get_facecolor()[:3]) >= 4.5, text.get_text()
