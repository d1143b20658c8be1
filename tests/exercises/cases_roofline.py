"""Right and wrong answers to the exercises of notebook 07."""

import math

from tests.exercises.case import Case


def least_time(flops, moved, peak, bandwidth):
    return max(flops / peak, moved / bandwidth)


def units(flops, frequency, lanes, fma):
    return flops / frequency / lanes / (2 if fma else 1)


def side(cache, size, multiple):
    return int((cache / (3 * size)) ** 0.5) // multiple * multiple


def batch(n, ridge):
    return math.ceil(2 * n * ridge / (n - 4 * ridge)) if n > 4 * ridge else math.inf


def factors(k1, k2, stride, groups):
    parameters = k2**2 / k1**2 / groups
    return parameters / stride**2, parameters, 1 / stride**2


RIGHT = {"i": ("n", 0, "n"), "j": (0, 1, 1), "k": (1, "n", 0)}
HEAD = "void multiply(int64_t n, const float *a, const float *b, float *c) {"
LOOPS = """
    for (int64_t i = 0; i < n; i++)
        for (int64_t %s = 0; %s < n; %s++)
            for (int64_t %s = 0; %s < n; %s++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}
"""
IJK = HEAD + LOOPS % (*"jjj", *"kkk")
TILE = """
typedef float row __attribute__((vector_size(32), aligned(4)));
void multiply(int64_t n, const float *a, const float *b, float *c) {
    for (int64_t i = 0; i < n; i += 6)
        for (int64_t j = 0; j < n; j += 16) {
            row sum[6][2] = {0};
            for (int64_t k = 0; k < n; k++) {
                row left = *(const row *)(b + k * n + j), right = *(const row *)(b + k * n + j + 8);
                for (int r = 0; r < 6; r++) {
                    sum[r][0] += a[(i + r) * n + k] * left;
                    sum[r][1] += a[(i + r) * n + k] * right;
                }
            }
            for (int r = 0; r < 6; r++)
                for (int h = 0; h < 2; h++) *(row *)(c + (i + r) * n + j + 8 * h) = sum[r][h];
        }
}
"""

CASES = {
    "fma_units": Case(
        right=units,
        wrong=[
            lambda f, c, w, fma: f / c / w,
            lambda f, c, w, fma: f / c / w / 2,
            lambda f, c, w, fma: f / c / 2 / 2 / w,
            lambda f, c, w, fma: round(units(f, c, w, fma)),
        ],
    ),
    "predict_point": Case(
        right=least_time,
        also=[lambda f, b, p, w: f / min(p, w * f / b)],  # the text's own formula
        wrong=[
            lambda f, b, p, w: f / p + b / w,
            lambda f, b, p, w: f / p,
            lambda f, b, p, w: min(f / p, b / w),
        ],
    ),
    "strides": Case(
        right=(RIGHT, "j"),
        wrong=[
            (RIGHT | {"k": ("n", 1, 0)}, "j"),
            (RIGHT | {"j": (0, 1, "n")}, "j"),
            (RIGHT | {"i": ("N", 0, "N")}, "j"),
            ({"j": (0, 1, 1), "k": (1, "n", 0)}, "j"),
            (RIGHT, "k"),
            (RIGHT, "ikj"),
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
    "own_product": Case(
        right=TILE,
        wrong=[
            IJK,  # right, and slow
            HEAD + LOOPS % (*"kkk", *"jjj"),  # ikj itself: no faster than ikj
            TILE.replace("i += 6", "i += 12"),
            TILE.replace("j += 16", "j += 15"),
            IJK.replace("c[i * n + j] +=", "c[(i + 1) * n + j] +="),
            IJK.replace("j < n", "j <= n"),
            IJK.replace("i < n; i++", "i < n;"),  # never ends
            IJK.replace("c[i * n + j] +=", "c[(i << 40) + j] +="),
            IJK.replace("n + j];", "n + j]"),
            HEAD + " ((float *)a)[0] += 1; " + IJK[len(HEAD) :],
        ],
    ),
    "compute_bound_batch": Case(
        right=batch,
        wrong=[
            lambda n, ridge: math.ceil(2 * ridge),
            lambda n, ridge: batch(n, ridge) - 1,
            lambda n, ridge: batch(n, ridge) + 1,
            lambda n, ridge: math.ceil(2 * n * ridge / (n - 4 * ridge)),
        ],
    ),
    "layer_factors": Case(
        right=factors,
        wrong=[
            lambda k1, k2, s, g: (k2**2 / k1**2 / s**2 / g**2, k2**2 / k1**2 / g, 1 / s**2),
            lambda k1, k2, s, g: (k2**2 / k1**2 / s**2 / g, k1**2 / k2**2 / g, 1 / s**2),
            lambda k1, k2, s, g: (k2**2 / k1**2 / s**2 / g, k2**2 / k1**2 / g, 1 / s),
            lambda k1, k2, s, g: k2 / k1,
        ],
    ),
}
