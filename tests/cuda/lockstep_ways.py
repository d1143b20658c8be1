"""Kernels whose lanes go together: branches, loops of different lengths, functions, recursion."""

import numpy as np

from tests.cuda.lockstep import Kernels

KERNELS = Kernels()
kernel = KERNELS.add


@kernel()
def pairs_after_syncwarp(k):
    """__syncwarp(); int2 p = ((const int2 *)x)[t]; y[t] = p.x + p.y;"""
    k.x(k.t, k.all, 8)
    k.y(k.t, k.all)


@kernel(block=48)
def a_warp_of_half_a_size(k):
    """if (t >= 40) return;
    __syncwarp(__activemask()); y[t] = x[t];"""
    on = k.t < 40
    k.x(k.t, on)
    k.y(k.t, on)


@kernel()
def four_cases(k):
    """switch (t % 4) { case 0: y[t] = x[t]; break; case 1: y[t + 64] = 1;
    case 2: y[t + 128] = 2; break; default: y[t + 192] = x[t + 64]; }"""
    way = k.t % 4
    k.x(k.t, way == 0)
    k.y(k.t, way == 0)
    k.y(k.t + 64, way == 1)
    k.y(k.t + 128, (way == 1) | (way == 2))
    k.x(k.t + 64, way == 3)
    k.y(k.t + 192, way == 3)


@kernel()
def loops_of_different_lengths(k):
    """int n = x[t], s = 0;
    for (int i = 0; i < n; i++) s += x[64 + t + 33 * i];
    y[t] = s;"""
    n = k.x(k.t, k.all)
    for i in range(n.max()):
        k.x(64 + k.t + 33 * i, i < n)
    k.y(k.t, k.all)


@kernel()
def break_in_a_branch(k):
    """int n = x[t], s = 0;
    for (int i = 0; i < 20; i++) {
        if (t % 2) { s += x[t + i]; if (i == n) break; }
        s += x[3 * t + i];
    }
    y[t] = s;"""
    n, odd, on = k.x(k.t, k.all), k.t % 2 == 1, k.all
    for i in range(20):
        k.x(k.t + i, on & odd)
        on = on & ~(odd & (i == n))
        k.x(3 * k.t + i, on)
    k.y(k.t, k.all)


@kernel()
def return_in_a_loop(k):
    """for (int i = 0; i < 30; i++) { if (x[i + t] > 27) return; y[t + 64 * i] = i; }"""
    on = k.all
    for i in range(30):
        on = on & ~(k.x(i + k.t, on) > 27)
        k.y(k.t + 64 * i, on)


@kernel()
def condition_that_reads(k):
    """int i = t;
    while (x[i] % 4) i += 3;
    y[t] = i;"""
    i, on = k.t, k.all
    while on.any():
        on = on & (k.x(i, on) % 4 != 0)
        i = np.where(on, i + 3, i)
    k.y(k.t, k.all)


@kernel()
def do_while_in_a_loop(k):
    """for (int i = 0; i < 3; i++) { int n = x[t + i]; do {
    y[64 * n + t + 600] = i; n -= 7; } while (n > 0); }"""
    for i in range(3):
        n, on = k.x(k.t + i, k.all), k.all
        while on.any():
            k.y(64 * n + k.t + 600, on)
            n = n - 7
            on = on & (n > 0)


@kernel(before="#define EACH(i, n) for (int i = 0; i < (n); i++)")
def loop_of_a_macro(k):
    """int n = x[t], s = 0;
    EACH(i, n) if (i % 2 == t % 2) s += x[t + 9 * i];
    y[t] = s;"""
    n = k.x(k.t, k.all)
    for i in range(32):
        k.x(k.t + 9 * i, (i < n) & (i % 2 == k.t % 2))
    k.y(k.t, k.all)


@kernel()
def dangling_else(k):
    """if (t % 2) for (int i = 0; i < t % 5; i++) if (i != 1) y[t + 64 * i] = x[t]; else y[t] = 2;
    else y[t + 400] = 1;"""
    odd = k.t % 2 == 1
    for i in range(4):
        on = odd & (i < k.t % 5)
        if i != 1:
            k.x(k.t, on)
            k.y(k.t + 64 * i, on)
        else:
            k.y(k.t, on)
    k.y(k.t + 400, ~odd)


@kernel()
def backwards(k):
    """int n = x[t], s = 0;
    again: s += x[t + n]; if (--n > 0) goto again;
    y[t] = s;"""
    n, on = k.x(k.t, k.all), k.all
    while on.any():
        k.x(k.t + n, on)
        n = n - 1
        on = on & (n > 0)
    k.y(k.t, k.all)


@kernel(before="__device__ int sum_of(const int *x, int n) { int s = 0; while (n > 0) s += x[n--];"
               " return s; }")  # fmt: skip
def loop_in_a_function(k):
    """int s = 0; if (t % 2) s = sum_of(x, t % 7); else s = sum_of(x + 64, t % 5);
    y[t] = s;"""
    odd = k.t % 2 == 1
    for on, base, n in ((odd, 0, k.t % 7), (~odd, 64, k.t % 5)):
        for i in range(7):
            k.x(base + n - i, on & (n - i > 0))
    k.y(k.t, k.all)


@kernel(before="__device__ int deep(const int *x, int n) { int here = x[n]; return n <= 0 ? here : "
               "here + deep(x, n - 1 - here % 2) * deep(x, n - 3 - here % 3); }")  # fmt: skip
def recursion(k):
    """y[t] = deep(x + 32, t % 8);"""

    def deep(n, on):
        here = k.x(32 + n, on)
        on = on & (n > 0)
        if on.any():
            deep(n - 1 - here % 2, on)
            deep(n - 3 - here % 3, on)

    deep(k.t % 8, k.all)
    k.y(k.t, k.all)
