"""Right and wrong answers to the exercises of notebooks 07 and A4."""

import math

import numpy as np
import torch

from tests.exercises.case import Case


def least_time(flops, moved, peak, bandwidth):
    return max(flops / peak, moved / bandwidth)


def side(cache, size, multiple):
    return int((cache / (3 * size)) ** 0.5) // multiple * multiple


def batch(n, ridge, weight, value):
    room = n - value * ridge
    return math.ceil(n * ridge * weight / (2 * room)) if room > 0 else math.inf


def tried_batches(n, ridge, weight, value, most=10**6):
    """The same by counting up; past a million there is none."""
    for b in range(1, most):
        if 2 * b * n * n >= ridge * (weight * n * n + 2 * value * b * n):
            return b
    return float("inf")


def none_where_none(n, ridge, weight, value):
    found = batch(n, ridge, weight, value)
    return None if found == math.inf else found


def requests(C, T, share):
    return 3 * C / T + 0.5, math.ceil(6 * C / T * share / (1 - share))


def factors(k1, k2, stride, groups):
    parameters = k2**2 / k1**2 / groups
    return parameters / stride**2, parameters, 1 / stride**2


def moved(read, written, size, allocate):
    fetched = set(read) | set(written) if allocate else set(read)
    return size * (len(fetched) + len(written))


def chosen(old, changes, peak, bandwidth, time=least_time):
    name = min(changes, key=lambda one: time(*changes[one], peak, bandwidth))
    return name, time(*changes[name], peak, bandwidth) / time(*old, peak, bandwidth)


def by_hand(old, changes, peak, bandwidth):
    """The same with lists and a loop, and the share by performance."""
    best, least = "", float("inf")
    for name in sorted(changes):
        seconds = changes[name][0] / min(peak, bandwidth * changes[name][0] / changes[name][1])
        if seconds < least:
            best, least = name, seconds
    return [best, np.float64(least * min(peak / old[0], bandwidth / old[1]))]


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
SAYS = "#include <stdio.h>\n" + TILE.replace("{\n", '{\n    printf("n = %d", (int)n);\n', 1)

CASES = {
    "moved_bytes": Case(
        right=moved,
        also=[lambda *asked: np.float64(moved(*asked))],
        wrong=[
            lambda read, written, size, allocate: size * (len(read) + len(written)),
            lambda read, written, size, fetch: size * (len(read) + len(written) * (1 + fetch)),
            lambda read, written, size, allocate: 8 * moved(read, written, 1, allocate),
            lambda read, written, size, fetch: (
                size  # one fetch at the most
                * (len(read) + len(written) + (fetch and not set(written) <= set(read)))
            ),
        ],
    ),
    "predict_point": Case(
        right=least_time,
        also=[lambda f, b, p, w: f / min(p, w * f / b)],  # the text's own formula
        wrong=[lambda f, b, p, w: f / p + b / w],
    ),
    "strides": Case(
        right=(RIGHT, "j"),
        also=[
            ({"k": [1.0, "n", 0.0], "j": [0, 1, 1], "i": ["n", 0, "n"]}, ("j",)),
            ({loop: np.array(steps) for loop, steps in RIGHT.items()}, "j"),
        ],
        wrong=[
            (RIGHT | {"k": ("n", 1, 0)}, "j"),
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
        ],
    ),
    "own_product": Case(
        long=True,
        right=TILE,
        also=[SAYS],
        wrong=[
            "#include <stdlib.h>\n" + HEAD + " _Exit(0); }",
            TILE.replace("for (int64_t i = 0;", "static int64_t i = 0; for (;"),  # right only once
            TILE.replace("a[(i + r) * n + k]", "a[k * n + i + r]"),
            HEAD + LOOPS % (*"kkk", *"jjj"),  # ikj itself: no faster than ikj
            TILE.replace("j += 16", "j += 15"),
            IJK.replace("i < n; i++", "i < n;"),  # never ends
            IJK.replace("c[i * n + j] +=", "c[(i << 40) + j] +="),
            IJK.replace("n + j];", "n + j]"),
            HEAD + " ((float *)a)[0] += 1; " + IJK[len(HEAD) :],
        ],
    ),
    "compute_bound_batch": Case(
        right=batch,
        also=[
            tried_batches,
            lambda *answer: np.float32("inf") if batch(*answer) == math.inf else batch(*answer),
        ],
        wrong=[
            lambda *answer: tried_batches(*answer, most=10_000),
            none_where_none,
            lambda n, ridge, weight, value: math.ceil(ridge * weight / 2),
            lambda n, ridge, weight, value: batch(n, ridge, value, value),
            lambda n, ridge, weight, value: batch(n, ridge, weight, value / 2),  # no result moved
            lambda n, ridge, weight, value: batch(n, ridge, weight, value) + 1,
            lambda n, ridge, weight, value: math.ceil(
                n * ridge * weight / (2 * (n - value * ridge))
            ),
        ],
    ),
    "enough_requests": Case(
        right=requests,
        also=[lambda *answer: list(requests(*answer))],
        wrong=[
            lambda C, T, share: (requests(C, T, share)[0], 6 * C / T * share / (1 - share)),
            lambda C, T, share: (requests(C, T, share)[0], requests(C, T, share)[1] + 1),
            lambda C, T, share: (3 * C / T + 0.5, int(6 * C / T * share / (1 - share)) + 1),
            lambda C, T, share: (share * requests(C, T, share)[0], requests(C, T, share)[1]),
            lambda C, T, share: (3 * C / T, requests(C, T, share)[1]),  # attention forgotten
        ],
    ),
    "layer_factors": Case(
        right=factors,
        also=[
            lambda *answer: iter(factors(*answer)),
            lambda *answer: torch.tensor(factors(*answer), dtype=torch.float64),
        ],
        wrong=[
            lambda k1, k2, s, g: (k2**2 / k1**2 / s**2 / g**2, k2**2 / k1**2 / g, 1 / s**2),
            lambda k1, k2, s, g: (k2**2 / k1**2 / s**2 / g, k2**2 / k1**2 / g, 1 / s),
            lambda *answer: dict(zip("opf", factors(*answer), strict=True)),
        ],
    ),
    "choose_change": Case(
        right=chosen,
        also=[by_hand, lambda *asked: iter(chosen(*asked))],
        wrong=[
            lambda *asked: chosen(*asked, time=lambda f, b, p, w: f / p),  # operations alone
            lambda *asked: chosen(*asked, time=lambda f, b, p, w: b / w),  # bytes alone
            lambda *asked: chosen(*asked, time=lambda f, b, p, w: f / p + b / w),
            lambda *asked: chosen(*asked, time=lambda f, b, p, w: min(f / p, b / w)),
            lambda *asked: (chosen(*asked)[0], 1 / chosen(*asked)[1]),  # old ÷ new
            lambda *asked: chosen(*asked)[0],
            lambda *asked: chosen(*asked)[::-1],
            lambda old, changes, p, w: (  # seconds in place of a share
                chosen(old, changes, p, w)[0],
                least_time(*changes[chosen(old, changes, p, w)[0]], p, w),
            ),
            lambda old, changes, p, w: (  # what limits the old layer decides
                min(changes, key=lambda k: changes[k][old[0] / p < old[1] / w]),
                chosen(old, changes, p, w)[1],
            ),
        ],
    ),
}
