"""Right and wrong answers on constant memory and on copies in notebook 05."""

from tests.exercises.case import Case

FILTER = """
__constant__ float taps[25];
__global__ void from_constant(const float *image, float *out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++)
            if (y + j >= 0 && y + j < height && x + i >= 0 && x + i < width)
                sum += taps[5 * (j + 2) + i + 2] * image[(y + j) * width + x + i];
    out[y * width + x] = sum;
}
"""
SQUARE = FILTER.replace("taps[25]", "taps[5][5]").replace(
    "taps[5 * (j + 2) + i + 2]", "taps[j + 2][i + 2]"
)
ALONE = """
__constant__ float taps[25];
__global__ void from_constant(const float *image, float *out, int height, int width) {
    if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y) return;
    for (int p = 0; p < height * width; p++) {
        float sum = 0;
        for (int e = 0; e < 25; e++) {
            int y = p / width + e / 5 - 2, x = p % width + e % 5 - 2;
            if (y >= 0 && y < height && x >= 0 && x < width) sum += taps[e] * image[y * width + x];
        }
        out[p] = sum;
    }
}
"""

CASES = {
    "constant_filter": Case(
        right=FILTER,
        also=[SQUARE, FILTER.replace("taps[25]", "taps[32]")],
        wrong=[
            FILTER.replace("__constant__", "__device__"),
            FILTER.replace("5 * (j + 2) + i + 2", "5 * (i + 2) + j + 2"),
            FILTER.replace("x + i >= 0 && ", ""),
            ALONE,
        ],
    ),
}
