"""Photographs and maps keep their colours in a dark theme, ink on paper does not."""

import numpy as np
import pytest
from IPython.core.pylabtools import print_figure
from matplotlib import pyplot

from helpers.plots import dark


@pytest.mark.parametrize(
    ("draw", "parts"),
    [
        (lambda ax: ax.plot([1, 2]), 0),
        (lambda ax: ax.imshow(np.zeros((4, 4, 3))), 1),
        (lambda ax: ax.imshow(np.eye(4), cmap="gray"), 1),
        (lambda ax: ax.imshow(np.eye(4), cmap="gray_r"), 0),
        (lambda ax: ax.pcolormesh(np.eye(4)), 1),
        (lambda ax: ax.contourf(np.eye(4)), 1),
        (lambda ax: ax.contour(np.eye(4)), 0),
        (lambda ax: ax.figure.colorbar(ax.imshow(np.eye(4))), 2),
        (lambda ax: ax.figure.colorbar(ax.scatter([1, 2], [1, 2], c=[1, 2])), 0),
        (lambda ax: ax.imshow(np.eye(4), extent=(5, 6, 5, 6)) and ax.set(xlim=(0, 1)), 0),
    ],
)
def test_what_keeps_its_colours(ax, draw, parts):
    draw(ax)
    found = dark.kept(ax.figure, print_figure(ax.figure))
    assert len(found) == parts
    assert all(0 <= left < right <= 1 and 0 <= top < low <= 1 for left, top, right, low in found)


@pytest.mark.parametrize("options", [{}, {"base64": True}, {"bbox_inches": None}])
def test_it_is_where_the_picture_shows_it(ax, options, tmp_path):
    ax.imshow(np.full((4, 4, 3), 0.5))
    ax.axis("off")
    shown = print_figure(ax.figure, **options)
    ((left, top, right, low),) = dark.kept(ax.figure, shown)
    (tmp_path / "a.png").write_bytes(print_figure(ax.figure, **{**options, "base64": False}))
    picture = pyplot.imread(tmp_path / "a.png")[..., 0]
    rows, columns = np.nonzero(picture < 0.9)
    expected = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    height, width = picture.shape
    np.testing.assert_allclose(
        [left * width, top * height, right * width, low * height], expected, atol=1.5
    )


@pytest.mark.parametrize("tight", ["tight", None])
def test_in_an_svg_it_is_where_the_png_shows_it(ax, tight):
    ax.imshow(np.full((4, 4, 3), 0.5))
    ax.set(title="a photograph", ylabel="rows")
    seen = [
        dark.kept(ax.figure, print_figure(ax.figure, fmt=kind, bbox_inches=tight))
        for kind in ("svg", "png")
    ]
    np.testing.assert_allclose(*seen, atol=0.01)


@pytest.mark.parametrize(
    "shown",
    ["<svg/>", '<svg width="9pt" height="3pt"/>', '<svg width="80%" height="3pt">', b"", "no code"],
)
def test_where_the_place_is_not_known_the_picture_stays_as_it_is(ax, shown):
    assert dark.kept(ax.figure, shown) == []
    ax.imshow(np.eye(4))
    assert dark.kept(ax.figure, shown) is None
