"""Right and wrong kernels of notebook 15, whose threads exchange what they compute."""

from tests.exercises.case import Case

PACKED = """
__global__ void packed_sum(const float *x, float *total) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * 256 + t];
    for (int s = 1; s < 256; s *= 2) {
        __syncthreads();
        %s
    }
    if (t == 0) total[blockIdx.x] = part[0];
}
"""
WARP_SCAN = """
__global__ void warp_scan(const float *x, float *y) {
    int lane = threadIdx.x;
    float v = x[blockIdx.x * 32 + lane];
    for (int d = 1; d < 32; d *= 2) {
        %s
    }
    y[blockIdx.x * 32 + lane] = v;
}
"""
HISTOGRAM = """
__global__ void private_histogram(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned own[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
    %s
}
"""
COUNT = """__syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[x[i]], 1u);
    __syncthreads(); // counted
    """
ADD = "for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], own[b]);"
IN_PIECES = """__syncthreads();
    int size = (n + gridDim.x - 1) / gridDim.x, from = blockIdx.x * size;
    for (int i = from + threadIdx.x; i < min(n, from + size); i += blockDim.x)
        atomicAdd(own + x[i], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) if (own[b]) atomicAdd(bins + b, own[b]);"""
SCAN = """
__global__ void my_scan(const float *x, float *y) {
    __shared__ float part[256];
    int t = threadIdx.x, first = blockIdx.x * 256;
    for (int i = t; i < 256; i += 128) part[i] = x[first + i];
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        if (t < 128 / step) part[2 * step * (t + 1) - 1] += part[step * (2 * t + 1) - 1];
    }
    %s
    for (int i = t; i < 256; i += 128) y[first + i] = part[i];
}
"""
DOWN = """if (t == 0) part[255] = 0;
    for (int step = 128; step > 0; step /= 2) {
        __syncthreads();
        int right = 2 * step * (t + 1) - 1;
        if (right < 256) {
            float left = part[right - step];
            part[right - step] = part[right];
            part[right] += left;
        }
    }
    __syncthreads();"""
UP_TO = """for (int step = 64; step > 0; step /= 2) {
        __syncthreads();
        int right = 2 * step * (t + 1) - 1;
        if (right + step < 256) part[right + step] += part[right];
    }
    __syncthreads();"""
SHIFTED = (
    UP_TO
    + """
    float one = t ? part[t - 1] : 0, other = part[t + 127];
    __syncthreads();
    part[t] = one;
    part[t + 128] = other;"""
)
ALONE = """__syncthreads();
    if (t == 0) {
        float sum = 0;
        for (int i = 0; i < 256; i++) { part[i] = sum; sum += x[first + i]; }
        for (int i = 0; i < 256; i++) part[i] += 0;
    }
    __syncthreads();"""
BY_STEPS = """__shared__ float own[256];
    for (int i = t; i < 256; i += 128) own[i] = i ? x[first + i - 1] : 0;
    for (int s = 1; s < 256; s *= 2) {
        __syncthreads();
        float low = own[t] + (t >= s ? own[t - s] : 0);
        float high = own[t + 128] + (t + 128 >= s ? own[t + 128 - s] : 0);
        __syncthreads();
        own[t] = low;
        own[t + 128] = high;
    }
    __syncthreads();
    for (int i = t; i < 256; i += 128) part[i] = own[i];
    __syncthreads();"""

CASES = {
    "packed_sum": Case(
        right=PACKED % "if (2 * s * t < 256) part[2 * s * t] += part[2 * s * t + s];",
        also=[
            PACKED
            % "int left = 2 * s * t; if (t < 128 / s) atomicAdd(&part[left], part[left + s]);",
            PACKED % "if (t < 128 / s) part[t] += part[t + 128 / s];",  # other pairs, as few passes
        ],
        wrong=[
            PACKED % "if (t % (2 * s) == 0) part[t] += part[t + s];",  # right, in 47 passes
            PACKED % "if (t % (2 * s) == s) part[t - s] += part[t];",  # the same, by the other half
            PACKED % "if (2 * s * t <= 256) part[2 * s * t] += part[2 * s * t + s];",
            PACKED % "for (int j = 0; t == 0 && j < 256; j += 2 * s) part[j] += part[j + s];",
            PACKED % "if (s * t < 256) part[s * t] += part[s * t + s];",
        ],
    ),
    "warp_scan": Case(
        right=WARP_SCAN % "float left = __shfl_up_sync(~0u, v, d); if (lane >= d) v += left;",
        also=[
            WARP_SCAN % "v += (lane >= d) * __shfl_up_sync(0xffffffff, v, d);",
            WARP_SCAN % "float left = __shfl_sync(0xffffffff, v, lane - d); "
            "v = lane < d ? v : v + left;",
        ],
        wrong=[
            WARP_SCAN % "if (lane >= d) v += __shfl_up_sync(0xffffffff, v, d);",
            WARP_SCAN % "v += __shfl_up_sync(0xffffffff, v, d);",
            WARP_SCAN % "float left = __shfl_up_sync(~0u, v, d); if (lane > d) v += left;",
            WARP_SCAN % "v += __shfl_down_sync(0xffffffff, v, d);",
            WARP_SCAN % "if (d == 1) for (int j = 0; j < lane; j++) v += x[blockIdx.x * 32 + j];",
            WARP_SCAN % "__shared__ float part[32]; part[lane] = v; __syncthreads(); "
            "if (lane >= d) v += part[lane - d]; __syncthreads();",  # right, without a shuffle
        ],
        told={
            "lack the lane's own number": (
                WARP_SCAN % "if (d == 1) { v = __shfl_up_sync(~0u, v, 1); if (lane == 0) v = 0; } "
                "float left = __shfl_up_sync(~0u, v, d); if (lane >= d) v += left;"
            ),
        },
    ),
    "private_histogram": Case(
        right=HISTOGRAM % (COUNT + ADD),
        also=[HISTOGRAM % IN_PIECES],
        wrong=[
            HISTOGRAM % (COUNT + ADD).replace("__syncthreads();", "", 1),
            HISTOGRAM % (COUNT + ADD).replace("__syncthreads(); // counted", ""),
            HISTOGRAM % (COUNT + ADD.replace("atomicAdd(&bins[b], own[b])", "bins[b] += own[b]")),
            HISTOGRAM % (COUNT.replace("atomicAdd(&own[x[i]], 1u)", "own[x[i]]++") + ADD),
            HISTOGRAM % (COUNT.replace("own[x", "bins[x")),  # right, in global memory
            HISTOGRAM % (COUNT + "atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);"),
            HISTOGRAM
            % (
                COUNT
                + "if (threadIdx.x == 0) "
                + ADD.replace("threadIdx.x", "0").replace("b += blockDim.x", "b++")
            ),
        ],
    ),
    "my_scan": Case(
        right=SCAN % DOWN,
        also=[SCAN % SHIFTED],
        wrong=[
            SCAN % UP_TO,
            SCAN % ALONE,
            SCAN % BY_STEPS,  # right, in 8 · 256
        ],
    ),
}
