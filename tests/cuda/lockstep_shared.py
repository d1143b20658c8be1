"""Kernels whose lanes go together: shared memory, barriers, shuffles, atomics."""

from tests.cuda.lockstep import Kernels

KERNELS = Kernels()
kernel = KERNELS.add


@kernel()
def eight_bytes_of_shared_memory(k):
    """__shared__ double s[256]; if (t % 3) s[5 * (t % 32) + t / 32] = x[t];
    __syncthreads();
    if (t % 3) y[t] = s[5 * (t % 32) + t / 32];"""
    on, place = k.t % 3 != 0, 5 * (k.t % 32) + k.t // 32
    k.x(k.t, on)
    k.write(place, on, 8)
    k.read(place, on, 8)
    k.y(k.t, on)


@kernel(block=128)
def a_sum_that_parts_its_lanes(k):
    """__shared__ int s[512]; s[t] = x[t];
    for (int step = 1; step < 128; step *= 2) {
        __syncthreads();
        int v = t % (2 * step) == step ? s[t] : 0;
        if (t % (2 * step) == step) s[t - step] += v;
        __syncthreads();
    }
    if (t == 0) y[0] = s[0];"""
    k.x(k.t, k.all)
    k.write(k.t, k.all)
    step = 1
    while step < 128:
        on = k.t % (2 * step) == step
        k.read(k.t, on)
        k.read(k.t - step, on)
        k.write(k.t - step, on)
        step *= 2
    k.read(0, k.t == 0)
    k.y(0, k.t == 0)


@kernel(block=96)
def barriers_between_loops_that_part(k):
    """__shared__ int s[512];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < (t + i) % 4; j++) s[t + 96 * j] = i;
        __syncthreads();
        if (t % 4 == i) y[t + 96 * i] = x[t] + i;
        __syncthreads();
    }"""
    for i in range(3):
        for j in range(3):
            k.write(k.t + 96 * j, j < (k.t + i) % 4)
        k.x(k.t, k.t % 4 == i)
        k.y(k.t + 96 * i, k.t % 4 == i)


@kernel()
def shuffles_in_a_loop(k):
    """int v = x[t];
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
    if (t % 32 == 0) y[t / 32] = v;
    for (int i = t % 32; i < 50; i += 32) y[64 + i + 64 * (t / 32)] = x[i];"""
    k.x(k.t, k.all)
    k.y(k.t // 32, k.t % 32 == 0)
    for i in range(2):
        on = k.t % 32 + 32 * i < 50
        k.x(k.t % 32 + 32 * i, on)
        k.y(64 + k.t % 32 + 32 * i + 64 * (k.t // 32), on)


@kernel()
def shuffles_among_lanes_of_one_way(k):
    """if (t % 2) {
        for (int i = 0; i < t % 4; i++) { int v = __shfl_sync(__activemask(), x[t + i], 1);
            y[t] = v; }
    } else y[t] = x[2 * t];"""
    odd = k.t % 2 == 1
    for i in range(3):
        on = odd & (i < k.t % 4)
        k.x(k.t + i, on)
        k.y(k.t, on)
    k.x(2 * k.t, ~odd)
    k.y(k.t, ~odd)


@kernel()
def atomics_on_shared_memory(k):
    """__shared__ int s[512]; s[t] = 0;
    __syncthreads();
    int n = x[t];
    for (int i = 0; i < n; i += 5) atomicAdd(&s[x[64 * i + t]], 1);
    __syncthreads();
    if (t < 32) y[t] = s[t];"""
    k.write(k.t, k.all)
    n = k.x(k.t, k.all)
    for i in range(0, 32, 5):
        k.add(k.x(64 * i + k.t, i < n), i < n, "s")
    k.read(k.t, k.t < 32)
    k.y(k.t, k.t < 32)
