"""Everybody reads the words in a figure: they have contrast (WCAG 2.2: 4.5 to 1) and room."""

import itertools
import re

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from helpers.plots import style
from helpers.plots.dark import luminance
from helpers.plots.labels import beside, together
from helpers.plots.web.page import HERE
from helpers.timing import Others, Spent


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [*style.PALETTE, style.GREY, "#757575", "white"])
def test_text_is_read_on_and_in_every_colour(colour):
    assert contrast(style.ink(colour), colour) >= 4.5
    assert contrast(style.legible(colour), "white") >= 4.5


@pytest.mark.parametrize("colour", [*style.PALETTE[:6], style.BLACK, style.GREY])
def test_a_line_is_seen_on_white(colour):
    assert contrast(colour, "white") >= 3


@pytest.mark.parametrize("fill", style.PALETTE)
def test_a_box_or_its_edge_is_seen_on_white(fill):
    assert max(contrast(fill, "white"), contrast(style.edge(fill), "white")) >= 3


# Machado, Oliveira and Fernandes (2009), "A physiologically-based model for simulation of color
# vision deficiency", table 1, severity 1.0: of linear red, green and blue.
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(colour, deficiency):
    """CIELAB under D65 of a colour as it is seen with a deficiency of colour vision."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(deficiency) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ratio = np.array(to_xyz) @ seen / [0.9505, 1.0, 1.0888]
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", DEFICIENCIES)
def test_the_colours_of_items_are_told_apart_with_every_colour_vision(kind):
    seen = {colour: lab(colour, DEFICIENCIES[kind]) for colour in style.PALETTE[:6]}
    near = {
        pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]])
        for pair in itertools.combinations(seen, 2)
    }
    assert min(near.values()) > 15, min(near, key=near.get)


def test_every_line_of_a_picture_in_html_is_seen_on_white():
    sources = [*HERE.glob("*.css"), *HERE.glob("*.js"), *HERE.parent.glob("*_html.py")]
    lines = [
        (source.name, colour)
        for source in sources
        for line in source.read_text("utf-8").splitlines()
        if ".lane" not in line  # guides behind what is drawn
        for stroke in re.findall(r"stroke[\"']?[=:,]([^;}<>]*)", line)
        for colour in re.findall(r"#(?:[\da-fA-F]{6}|[\da-fA-F]{3})\b", stroke.split("fill")[0])
    ]
    assert len(lines) > 30
    faint = [(name, c) for name, c in lines if contrast(c, "white") < 3 and c != "#fff"]
    assert faint == []


@pytest.mark.parametrize(
    ("values", "ticks"),
    [((0.02, 0.2), ["0.02", "0.05", "0.1", "0.2"]), ((18, 90), ["20", "30", "50", "70"])],
)
def test_a_logarithmic_axis_of_few_decades_has_plain_numbers(values, ticks):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    ax.plot(values)
    ax.set_yscale("log")
    ax.set_ylim(0.9 * values[0], 1.1 * values[1])
    style.few_decades(ax.yaxis)
    ax.figure.canvas.draw()
    low, high = ax.get_ylim()
    shown = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    assert [label.get_text() for at, label in shown if low <= at <= high] == ticks


@pytest.mark.parametrize("title", ["", "Four hosts"])
def test_a_busy_machine_is_said_over_the_picture(title):
    from matplotlib.figure import Figure

    figure, others = Figure(), Others()
    figure.subplots().set(ylabel="ms", title=title)
    style.doubt(figure, others)
    assert figure.get_suptitle() == ""
    others.spent, others.seconds = Spent(1.2, 2.0, 0.0), 1.0
    style.doubt(figure, others)
    assert " 40 % of the cores" in figure.get_suptitle()
    assert figure.get_label() == (title or "ms")  # the caption is not the warning


HEIGHT = 18


def boxes(points, widths, **more):
    found = beside(points, widths, HEIGHT, **more)
    return [
        (left, middle - HEIGHT / 2, left + width, middle + HEIGHT / 2)
        for (left, middle), width in zip(found, widths, strict=True)
    ]


def apart(one, other):
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_a_name_alone_stands_right_of_its_point():
    assert beside([(50, 40)], [30], HEIGHT) == [(62, 40)]


def test_names_of_a_crowd_cover_neither_one_another_nor_a_point():
    points = [(100, 100 + 13 * k) for k in range(6)]
    placed = boxes(points, [80] * 6)
    assert all(apart(a, b) for a, b in itertools.combinations(placed, 2))
    assert all(apart(box, (x - 7, y - 7, x + 7, y + 7)) for box in placed for x, y in points)


def test_a_name_keeps_off_a_line_and_inside():
    (box,) = boxes([(50, 50)], [60], lines=[(80, 0, 80, 100)])  # a line where it would stand
    assert box[2] <= 80
    (box,) = boxes([(180, 50)], [60], within=(0, 0, 200, 100))
    assert box[2] <= 200


def test_points_upon_one_another_share_a_line_of_names():
    assert together([(0, 0), (50, 0), (1, 2)], ["a", "b", "c"]) == [
        ((0, 0), "a, c"),
        ((50, 0), "b"),
    ]
