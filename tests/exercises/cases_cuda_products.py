"""Right and wrong answers to the products of matrices in notebook 05."""

from tests.exercises.case import Case

PRODUCT = """
__global__ void tiled_product(const float *a, const float *b, float *c, int m, int k, int n) {
    __shared__ float left[16][16], right[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int j = blockIdx.x * 16 + x, i = blockIdx.y * 16 + y;
    float sum = 0;
    for (int from = 0; from < k; from += 16) {
        left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
        right[y][x] = from + y < k && j < n ? b[(from + y) * n + j] : 0.0f;
        __syncthreads(); // whole
        for (int p = 0; p < 16; p++) sum += left[y][p] * right[p][x];
        __syncthreads(); // read
    }
    if (i < m && j < n) c[i * n + j] = sum;
}
"""
DIRECT = """
__global__ void tiled_product(const float *a, const float *b, float *c, int m, int k, int n) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (i >= m || j >= n) return;
    float sum = 0;
    for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
    c[i * n + j] = sum;
}
"""
COARSE = """
template <int C>
__global__ void coarse_product(const float *a, const float *b, float *c, int m, int k, int n) {
    __shared__ float left[16][16], right[16][16 * C];
    int x = threadIdx.x, y = threadIdx.y;
    int j = blockIdx.x * 16 * C + x, i = blockIdx.y * 16 + y;
    float sum[C] = {};
    for (int from = 0; from < k; from += 16) {
        %s
    }
    for (int q = 0; q < C; q++)
        if (i < m && j + 16 * q < n) c[i * n + j + 16 * q] = sum[q];
}
"""
LOADS = """left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
        for (int q = 0; q < C; q++)
            right[y][x + 16 * q] =
                from + y < k && j + 16 * q < n ? b[(from + y) * n + j + 16 * q] : 0.0f;
        __syncthreads();
"""
SUMS = """for (int p = 0; p < 16; p++)
            for (int q = 0; q < C; q++) sum[q] += left[y][p] * right[p][x + 16 * q];
        __syncthreads();"""
IN_A_ROW = """int t = 16 * y + x, first = blockIdx.x * 16 * C;
        left[t / 16][t % 16] = i < m && from + x < k ? a[i * k + from + x] : 0;
        for (int e = t; e < 256 * C; e += 256) {
            int row = from + e / (16 * C), column = first + e % (16 * C);
            right[e / (16 * C)][e % (16 * C)] = row < k && column < n ? b[row * n + column] : 0;
        }
        __syncthreads();
"""  # elements of B's tile one after the other, whoever makes which output
OF_COLUMNS = """for (int q = 0; q < C; q++) {
            float more = 0;
            for (int p = 0; p < min(16, k - from); p++)
                more += left[y][p] * right[p][x + 16 * q];
            sum[q] += more;
        }
        __syncthreads();"""  # the loops the other way round
TILE_BY_TILE = """for (int q = 0; q < C; q++) {
            left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
            right[y][x] = from + y < k && j + 16 * q < n ? b[(from + y) * n + j + 16 * q] : 0.0f;
            __syncthreads();
            for (int p = 0; p < 16; p++) sum[q] += left[y][p] * right[p][x];
            __syncthreads();
        }"""  # right, but A's tile is loaded C times

CASES = {
    "tiled_product": Case(
        right=PRODUCT,
        also=[
            PRODUCT.replace("[p][x]", "[x][p]").replace("right[y][x]", "right[x][y]"),
            PRODUCT.replace(  # the last step is shorter
                "p < 16; p++", "p < 16 && from + p < k; p++"
            ),
        ],
        wrong=[
            DIRECT,
            PRODUCT.replace("__syncthreads(); // whole", ""),
            PRODUCT.replace("__syncthreads(); // read", ""),
            PRODUCT.replace("i < m && from + x < k ?", "i < m ?"),
            PRODUCT.replace("from + y < k && j < n ?", "from + y < k ?"),
            PRODUCT.replace("float sum = 0;", "float sum = 0; if (i >= m || j >= n) return;"),
            PRODUCT.replace("sum += left[y][p] * right[p][x]", "sum += left[p][y] * right[x][p]"),
            PRODUCT.replace("from < k", "from + 15 < k"),
        ],
    ),
    "coarse_product": Case(
        right=COARSE % (LOADS + SUMS),
        also=[COARSE % (IN_A_ROW + OF_COLUMNS)],
        wrong=[
            COARSE % TILE_BY_TILE,
            COARSE
            % (LOADS + SUMS).replace("from + y < k && j + 16 * q < n ?", "from + y < k && j < n ?"),
            COARSE % (LOADS + SUMS.replace("right[p][x + 16 * q]", "right[p][C * x + q]")),
            COARSE % (LOADS + SUMS).replace("q < C", "q < 4"),  # right for C = 4 alone
            COARSE  # thread 0 loads B's tile alone
            % (
                IN_A_ROW.replace("int e = t; e", "int e = 0; t == 0 && e").replace(
                    "e += 256)", "e++)"
                )
                + SUMS
            ),
            COARSE.replace("template <int C>", "#define C 4") % (LOADS + SUMS),
        ],
    ),
}
