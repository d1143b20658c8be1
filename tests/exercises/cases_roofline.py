"""Right and wrong answers to the exercises of notebook 07."""

from tests.exercises.case import Case


def least_time(flops, moved, peak, bandwidth):
    return max(flops / peak, moved / bandwidth)


def side(cache, size, multiple):
    return int((cache / (3 * size)) ** 0.5) // multiple * multiple


RIGHT = {"i": ("n", 0, "n"), "j": (0, 1, 1), "k": (1, "n", 0)}

CASES = {
    "predict_point": Case(
        right=least_time,
        wrong=[
            lambda f, b, p, w: f / p + b / w,
            lambda f, b, p, w: f / p,
            lambda f, b, p, w: min(f / p, b / w),
        ],
    ),
    "strides": Case(
        right=RIGHT,
        wrong=[
            RIGHT | {"k": ("n", 1, 0)},
            RIGHT | {"j": (0, 1, "n")},
            {"j": (0, 1, 1), "k": (1, "n", 0)},
        ],
    ),
    "choose_tile": Case(
        right=side,
        wrong=[
            lambda cache, size, multiple: int((cache / size) ** 0.5) // multiple * multiple,
            lambda cache, size, multiple: int((cache / (3 * size)) ** 0.5),
            lambda cache, size, multiple: cache // (3 * size),
        ],
    ),
}
