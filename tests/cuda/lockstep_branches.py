"""Kernels whose lanes go together: branches and early returns."""

from tests.cuda.lockstep import Kernels

KERNELS = Kernels()
kernel = KERNELS.add


@kernel()
def straight(k):
    """y[t] = x[t];"""
    k.x(k.t, k.all)
    k.y(k.t, k.all)


@kernel()
def after_syncwarp(k):
    """__syncwarp(); y[t] = x[t];"""
    straight(k)


@kernel()
def after_barrier(k):
    """__syncthreads(); y[t] = x[t + 1];"""
    k.x(k.t + 1, k.all)
    k.y(k.t, k.all)


@kernel()
def after_shuffle(k):
    """y[t] = __shfl_down_sync(~0u, x[t], 1); y[t + 65] = 3;"""
    straight(k)
    k.y(k.t + 65, k.all)


@kernel()
def pairs_after_syncwarp(k):
    """__syncwarp(); int2 p = ((const int2 *)x)[t]; y[t] = p.x + p.y;"""
    k.x(k.t, k.all, 8)
    k.y(k.t, k.all)


@kernel()
def bytes_after_syncwarp(k):
    """__syncwarp(); y[t] = ((const unsigned char *)x)[t];"""
    k.x(k.t, k.all, 1)
    k.y(k.t, k.all)


@kernel()
def strided(k):
    """y[3 * t] = x[2 * t];"""
    k.x(2 * k.t, k.all)
    k.y(3 * k.t, k.all)


@kernel()
def early_return(k):
    """if (t % 3 == 0) return;
    y[t] = x[t];"""
    on = k.t % 3 != 0
    k.x(k.t, on)
    k.y(k.t, on)


@kernel(block=48)
def a_warp_of_half_a_size(k):
    """if (t >= 40) return;
    __syncwarp(__activemask()); y[t] = x[t];"""
    on = k.t < 40
    k.x(k.t, on)
    k.y(k.t, on)


@kernel(block=64, grid=3)
def three_blocks(k):
    """int i = 64 * b + t; if (i < 150) y[i] = x[i];"""
    on = 64 * k.b + k.t < 150
    k.x(64 * k.b + k.t, on)
    k.y(64 * k.b + k.t, on)


@kernel(block=(8, 8))
def two_dimensions(k):
    """y[t] = x[16 * threadIdx.y + threadIdx.x];"""
    k.x(16 * (k.t // 8) + k.t % 8, k.all)
    k.y(k.t, k.all)


@kernel()
def both_ways(k):
    """if (t % 2) y[t] = x[t]; else y[t + 64] = x[t + 128];"""
    odd = k.t % 2 == 1
    k.x(k.t, odd)
    k.y(k.t, odd)
    k.x(k.t + 128, ~odd)
    k.y(k.t + 64, ~odd)


@kernel()
def nested_branches(k):
    """if (t % 2) { y[t] = 1; if (t % 3) y[t + 64] = x[t]; y[t + 128] = 2; }
    y[t + 192] = 3;"""
    odd = k.t % 2 == 1
    k.y(k.t, odd)
    k.x(k.t, odd & (k.t % 3 != 0))
    k.y(k.t + 64, odd & (k.t % 3 != 0))
    k.y(k.t + 128, odd)
    k.y(k.t + 192, k.all)


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
def either(k):
    """if (t % 2 == 0 || x[t] > 15) y[t] = 1;"""
    odd = k.t % 2 == 1
    k.y(k.t, ~odd | (k.x(k.t, odd) > 15))


@kernel()
def a_guarded_value(k):
    """y[t] = t >= 4 ? x[t - 4] : 0;"""
    k.x(k.t - 4, k.t >= 4)
    k.y(k.t, k.all)
