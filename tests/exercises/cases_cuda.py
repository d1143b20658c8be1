"""Right and wrong answers to the exercises of notebook 05."""

from tests.exercises.case import Case

AXPY = """
__global__ void axpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    %s
}
"""
AVERAGE = """
#define R 2
__global__ void moving_average(const float *x, float *y, int n) {
    __shared__ float tile[32 + 2 * R];
    int first = blockIdx.x * 32 - R;
    %s
    __syncthreads();
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) {
        float sum = 0;
        for (int k = 0; k <= 2 * R; k++) sum += tile[threadIdx.x + k];
        y[i] = sum / (2 * R + 1);
    }
}
"""
LOAD = """for (int k = threadIdx.x; k < 32 + 2 * R; k += 32)
        tile[k] = first + k >= 0 && first + k < n ? x[first + k] : 0.0f;"""
BRIGHTEN = """
__global__ void brighten(const float *image, float *out, int height, int width) {
    %s
    if (x < width && y < height) out[y * width + x] = 1.2f * image[y * width + x];
}
"""
REVERSE = """
__global__ void reverse_blocks(float *x, int n) {
    __shared__ float tile[64];
    int first = blockIdx.x * 64, size = min(64, n - first);
    if (threadIdx.x < size) tile[threadIdx.x] = x[first + threadIdx.x];
    %s
    if (threadIdx.x < size) x[first + threadIdx.x] = tile[size - 1 - threadIdx.x];
}
"""

CASES = {
    "axpy": Case(
        right=AXPY % "if (i < n) y[i] = a * x[i] + y[i];",
        wrong=[
            AXPY % "y[i] = a * x[i] + y[i];",
            AXPY % "if (i <= n) y[i] = a * x[i] + y[i];",
            AXPY % "if (i < n) y[i] = a * x[i];",
            AXPY % "if (i < n) y[i] = a * x[i] + y[i]",
            "__global__ void other(float *x) {}",
        ],
    ),
    "moving_average": Case(
        right=AVERAGE % LOAD,
        wrong=[
            AVERAGE % "tile[threadIdx.x + R] = x[first + R + threadIdx.x];",
            AVERAGE % "for (int k = threadIdx.x; k < 32 + 2 * R; k += 32) tile[k] = x[first + k];",
            AVERAGE % LOAD.replace("k += 32", "k += 64"),
            AVERAGE % LOAD.replace("int k = threadIdx.x", "int k = 0").replace("k += 32", "k++"),
        ],
    ),
    "brighten": Case(
        right=BRIGHTEN
        % "int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;",
        wrong=[
            BRIGHTEN % "int x = blockIdx.x * 32 + threadIdx.y, y = blockIdx.y * 32 + threadIdx.x;",
            BRIGHTEN % "int x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;",
            BRIGHTEN % "int x = threadIdx.x, y = threadIdx.y;",
        ],
    ),
    "reverse_blocks": Case(
        right=REVERSE % "__syncthreads();",
        wrong=[
            REVERSE % "__syncwarp();",
            REVERSE % "if (threadIdx.x < 32) __syncthreads();",
            REVERSE % "if (threadIdx.x < size) __syncthreads();",
        ],
    ),
    "loads_per_output": Case(
        right=lambda h, w, k: (h + k - 1) * (w + k - 1) / (h * w),
        wrong=[
            lambda h, w, k: k * k,
            lambda h, w, k: (h + k) * (w + k) / (h * w),
            lambda h, w, k: (h + k - 1) * (w + k - 1),
        ],
    ),
}
