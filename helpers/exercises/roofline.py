"""Checks behind the exercises of notebooks 07 and A4."""

from __future__ import annotations

import math
import statistics

from helpers.exercises.answers import number, several
from helpers.exercises.core import NotAttempted, call, close, equal, exercise, wrong

FASTER = 1.25  # times the ikj loop: what a product of the reader's own must reach
TRIES = 5  # most of them count
LARGE = 768  # B takes 2.4 MB: where L2 holds it, ikj is nearly as fast as a good product


@exercise
def moved_bytes(answer):
    """answer(read, written, size, allocate) -> bytes that memory moves for one turn of a loop."""
    for name, read, written, size in (
        ("copy", ("b",), ("a",), 8),
        ("triad", ("b", "c"), ("a",), 8),
        ("update", ("a", "b"), ("a",), 8),
        ("add", ("b", "c"), ("a",), 4),
        ("a sum, which only reads", ("x",), (), 8),
        ("fill, which only writes", (), ("x",), 4),
        ("swap", ("a", "b"), ("b", "a"), 8),
        ("a rotation", ("x", "y", "z"), ("y", "out"), 2),
        ("two results of one", ("x",), ("y", "z"), 8),
    ):
        for allocate in (False, True):
            fetched = len({*read, *written}) if allocate else len(read)
            what = f"{name}: read {read}, written {written}, {size} bytes, allocate={allocate}"
            got = call(answer, read, written, size, allocate)
            equal(got, size * (fetched + len(written)), f"bytes for {what}")


@exercise
def predict_point(answer):
    """answer(flops, bytes, peak, bandwidth) -> seconds that a kernel takes at the least."""
    for flops, moved, peak, bandwidth in (
        (2e9, 12e9, 1e11, 2e10),
        (2e12, 12e6, 1e11, 2e10),
        (5e9, 1e9, 1e11, 2e10),
        (1, 4e9, 1e11, 2e10),
    ):
        what = f"{flops:g} flop, {moved:g} bytes, {peak:g} flop/s, {bandwidth:g} bytes/s"
        want = max(flops / peak, moved / bandwidth)
        close(call(answer, flops, moved, peak, bandwidth), want, f"seconds for {what}")


@exercise
def strides(answer, inner, layout="rows"):
    """answer: dict from loop name to the strides (in elements) of A, B, C; inner: the loop's name.

    ``inner`` is the innermost loop in which no matrix jumps a row, or a column where the
    ``layout`` is by columns.
    """
    want = {"i": ("n", 0, "n"), "j": (0, 1, 1), "k": (1, "n", 0)}
    if layout == "columns":
        want = {"i": (1, 0, 1), "j": (0, "n", "n"), "k": ("n", 1, 0)}
    if not isinstance(answer, dict) or set(answer) != set(want):
        wrong(f"expected a dict with the keys 'i', 'j' and 'k', got {answer!r}")
    for loop, steps in want.items():
        expected = f"inner loop {loop}: expected three strides, of A, B and C"
        got = several(answer[loop], 3, expected)
        known = {"n": "n", "0": 0, "1": 1, "0.0": 0, "1.0": 1}  # an array of three makes them text
        if strange := [step for step in got if str(step) not in known]:
            wrong(f"inner loop {loop}: a step is 0, 1 or the small letter 'n'; got {strange[0]!r}")
        got = tuple(known[str(step)] for step in got)
        for matrix, one, step in zip("ABC", got, steps, strict=True):
            equal(one, step, f"inner loop {loop}, the stride of {matrix}")
    free = [loop for loop, steps in want.items() if "n" not in steps]
    name = inner[0] if isinstance(inner, (tuple, list)) and len(inner) == 1 else inner
    name = name.strip().lower() if isinstance(name, str) else name
    if name not in tuple(want):
        wrong(f"the inner loop without a jump: expected 'i', 'j' or 'k'; got {inner!r}")
    if name not in free:
        wrong(f"the inner loop without a jump: your own table has a jump for {inner!r}")


@exercise
def choose_tile(answer, tiles=3):
    """answer(cache, size, multiple) -> the largest side of so many square tiles that fit."""
    for cache, size, multiple in ((32768, 4, 1), (32768, 4, 8), (524288, 8, 16), (1200, 4, 1)):
        most = max(t for t in range(0, 2000, multiple) if tiles * t * t * size <= cache)
        what = f"{cache} bytes, {size} an element, a multiple of {multiple}"
        got = call(answer, cache, size, multiple)
        if isinstance(got, (int, float)) and tiles * got * got * size > cache:
            wrong(f"{what}: {tiles} tiles of side {got} do not fit")
        equal(got, most, f"side of the tile for {what}")


@exercise
def own_product(source):
    """source: C with ``multiply(n, a, b, c)``: right for multiples of 48, and faster than ikj."""
    from helpers.roofline.own import ProductError, try_product

    if not isinstance(source, str):
        wrong(f"expected your C as a string, got {source!r}")
    try:
        for n in (48, 96, 144):
            tried = try_product(source, n, rounds=0)
            if tried.overrun or tried.changed:
                wrong(f"n = {n}: it writes {'beside c' if tried.overrun else 'to a or b'}")
            if tried.wrong:
                wrong(f"n = {n}: {tried.wrong} of {n * n} elements of c are not right")
        gains: list[float] = []
        for _ in range(TRIES):  # a busy machine shows a gain, or hides one, now and then
            tried = try_product(source, LARGE, rounds=2)
            gains.append(tried.rival / tried.seconds)
            if tried.wrong:
                wrong(f"n = {LARGE}: {tried.wrong} of {LARGE**2} elements of c are not right")
            if 2 * sum(gain >= FASTER for gain in gains) > TRIES:
                return
            if 2 * sum(gain < FASTER for gain in gains) > TRIES:
                break
    except ProductError as error:
        wrong(str(error))
    slower = 1 / statistics.median(gains)
    wrong(
        f"the numbers are right, but for n = {LARGE} it takes {slower:.2f} times as "
        f"long as ikj: at most {1 / FASTER:g} times is asked for"
    )


@exercise
def compute_bound_batch(answer):
    """answer(n, ridge, weight, value) -> the least batch at which a layer n → n is at the ridge.

    ``weight`` and ``value``: bytes of a weight, and of a number of the batch or of the result.
    """
    for n, ridge, weight, value in (
        (1024, 10, 4, 4),
        (512, 4, 4, 4),
        (256, 20, 4, 4),
        (4096, 25.5, 8, 8),
        (4096, 25.5, 1, 4),
        (1000, 30.3, 2, 8),
        (1024, 255, 8, 4),  # hundreds of thousands
    ):
        what = f"n = {n}, ridge {ridge}, weights of {weight} and values of {value} bytes"
        want = math.ceil(n * ridge * weight / (2 * (n - value * ridge)))
        got = call(answer, n, ridge, weight, value)
        if isinstance(got, (int, float)) and not isinstance(got, bool) and math.isfinite(got):
            reached = 2 * got * n / (weight * n + 2 * value * got) if got > 0 else 0
            if reached < ridge:
                wrong(f"{what}: a batch of {got} has {reached:.3g} flop/byte only")
        equal(got, want, f"the least batch for {what}")
    for n, ridge, weight, value in ((64, 20, 4, 4), (256, 20, 1, 16), (80, 20, 1, 4)):
        try:
            got = call(answer, n, ridge, weight, value)
        except NotAttempted:
            got = None  # an answer all the same: it passed those above
        what = f"n = {n}, ridge {ridge}, values of {value} bytes: no batch reaches it"
        if got is None or number(got, what) != math.inf:
            wrong(f"{what}, and you return {got!r}; expected math.inf")


@exercise
def enough_requests(answer):
    """answer(C, T, share) -> (limit of decode's intensity, least B that reaches a share of it)."""
    for C, T, share in (
        (512, 512, 0.45),
        (512, 512, 0.5),  # reached by a whole number itself
        (512, 100, 0.5),
        (768, 4000, 0.9),
        (4096, 300, 0.99),
    ):
        what = f"C = {C}, T = {T}, share {share}"
        got = call(answer, C, T, share)
        limit, least = several(got, 2, f"{what}: expected (limit, B)")
        close(limit, 3 * C / T + 0.5, f"{what}, the limit")
        equal(least, math.ceil(6 * C / T * share / (1 - share)), f"{what}, the least B")


@exercise
def layer_factors(answer):
    """answer(k1, k2, stride, groups) -> (operations, parameters, outputs), each new ÷ old."""
    for k1, k2, stride, groups in ((3, 1, 1, 1), (3, 3, 2, 1), (3, 3, 1, 4), (5, 3, 2, 8)):
        shrunk, parameters = 1 / stride**2, k2**2 / k1**2 / groups
        what = f"kernel {k1} → {k2}, stride {stride}, {groups} groups"
        got = call(answer, k1, k2, stride, groups)
        got = several(got, 3, f"{what}: expected (operations, parameters, outputs)")
        for name, one, want in zip(
            ("operations", "parameters", "outputs"),
            got,
            (parameters * shrunk, parameters, shrunk),
            strict=True,
        ):
            close(one, want, f"{what}, {name}")


@exercise
def choose_change(answer):
    """answer(old, changes, peak, bandwidth) -> (best change, its least time ÷ the old layer's).

    ``old`` and each value of ``changes`` are (operations, bytes).
    """
    base = (9.2e8, 3.8e6)
    two = {"kernel 3 → 1": (1e8, 3.3e6), "stride 2": (2.3e8, 2.6e6)}
    deep = {"kernel 3 → 1": (8e5, 3.2e6), "stride 2": (1.8e6, 2e6)}
    mixed = {"fewest bytes": (9e9, 1e7), "in between": (5e9, 1e8), "fewest flop": (1e8, 9e8)}
    for old, changes, peak, bandwidth in (
        (base, two, 1.5e11, 2e10),  # arithmetic decides
        (base, two, 1e13, 2e10),  # the same layer, but memory decides
        ((7.2e6, 3.2e6), deep, 1.5e11, 2e10),
        ((9e9, 1e9), mixed, 1e11, 1e10),  # neither count alone decides
        ((1e7, 1e6), {"worse": (1e6, 2e6), "worst": (1e6, 3e6)}, 1e11, 2e10),  # above 1
    ):
        time = {k: max(f / peak, b / bandwidth) for k, (f, b) in changes.items()}
        what = f"old {old}, changes {changes}, peak {peak:g}, bandwidth {bandwidth:g}"
        got = call(answer, old, dict(changes), peak, bandwidth)
        name, share = several(got, 2, f"{what}: expected (name, new ÷ old)")
        best = min(time, key=lambda one: time[one])
        equal(name, best, f"{what}: the change")
        close(share, time[best] / max(old[0] / peak, old[1] / bandwidth), f"{what}: new ÷ old")
