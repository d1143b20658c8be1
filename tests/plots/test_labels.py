"""helpers.plots.labels: names stand beside their points, off other names, points and lines."""

import itertools

from helpers.plots.labels import beside, together

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
