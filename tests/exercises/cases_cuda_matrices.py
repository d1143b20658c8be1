"""Right and wrong kernels of notebooks 05, 14 and 15 on whole matrices."""

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
PRODUCT = """
__global__ void tiled_product(const float *a, const float *b, float *c, int m, int k, int n) {
    __shared__ float left[16][16], right[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int j = blockIdx.x * 16 + x, i = blockIdx.y * 16 + y;
    float sum = 0;
    for (int from = 0; from < k; from += 16) {
        left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
        right[y][x] = from + y < k && j < n ? b[(from + y) * n + j] : 0.0f;
        __syncthreads();
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
SOFTMAX = """
__global__ void online_softmax(const float *x, float *y, int n) {
    const float *row = x + blockIdx.x * n;
    float m = -1e30f, l = 0;
    %s
    for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = expf(row[i] - m) / l;
}
"""
ONLINE = """for (int i = threadIdx.x; i < n; i += 32) {
        float v = row[i], now = fmaxf(m, v);
        l = l * expf(m - now) + expf(v - now);
        m = now;
    }
    for (int o = 16; o > 0; o /= 2) {
        float m2 = __shfl_xor_sync(0xffffffff, m, o), l2 = __shfl_xor_sync(0xffffffff, l, o);
        float now = fmaxf(m, m2);
        l = l * expf(m - now) + l2 * expf(m2 - now);
        m = now;
    }"""
BRANCHES = """for (int i = threadIdx.x; i < n; i += 32) {
        float v = row[i];
        if (v > m) { l = l * expf(m - v) + 1; m = v; } else l += expf(v - m);
    }
    float own = m;
    for (int o = 1; o < 32; o *= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    l *= expf(own - m);
    for (int o = 1; o < 32; o *= 2) l += __shfl_xor_sync(0xffffffff, l, o);"""
THRICE = """for (int i = threadIdx.x; i < n; i += 32) m = fmaxf(m, row[i]);
    for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    for (int i = threadIdx.x; i < n; i += 32) l += expf(row[i] - m);
    for (int o = 16; o > 0; o /= 2) l += __shfl_xor_sync(0xffffffff, l, o);"""

ATTENTION = """
__global__ void my_attention(const float *q, const float *k, const float *v, float *o, int n) {
    __shared__ float keys[32][32], values[32][32];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    float query[32], s[32] = {}, m = -1e30f, l = 0;
    for (int c = 0; c < 32; c++) query[c] = i < n ? q[i * 32 + c] / sqrtf(32) : 0.0f;
    for (int from = 0; from < n; from += 32) {
        for (int j = 0; j < 32 && from + j < n; j++)
            keys[j][t] = k[(from + j) * 32 + t], values[j][t] = v[(from + j) * 32 + t];
        __syncthreads();
        %s
        __syncthreads();
    }
    for (int c = 0; c < 32 && i < n; c++) o[i * 32 + c] = s[c] / l;
}
"""
RUNNING = """for (int j = 0; j < 32 && from + j < n; j++) {
            float score = 0;
            for (int c = 0; c < 32; c++) score += query[c] * keys[j][c];
            float now = fmaxf(m, score), shrink = expf(m - now), p = expf(score - now);
            l = l * shrink + p, m = now;
            for (int c = 0; c < 32; c++) s[c] = s[c] * shrink + p * values[j][c];
        }"""
BY_TILE = """float score[32], now = m;
        int some = min(32, n - from);
        for (int j = 0; j < some; j++) {
            score[j] = 0;
            for (int c = 0; c < 32; c++) score[j] += query[c] * keys[j][c];
            now = fmaxf(now, score[j]);
        }
        l *= expf(m - now);
        for (int c = 0; c < 32; c++) s[c] *= expf(m - now);
        m = now;
        for (int j = 0; j < some; j++) {
            l += expf(score[j] - m);
            for (int c = 0; c < 32; c++) s[c] += expf(score[j] - m) * values[j][c];
        }"""

CASES = {
    "constant_filter": Case(
        right=FILTER,
        also=[
            SQUARE,
            FILTER.replace("taps[25]", "taps[32]"),
            FILTER.replace("__constant__ float", "float __constant__"),
        ],
        wrong=[
            FILTER.replace("__constant__", "__device__"),
            ALONE,
        ],
    ),
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
            PRODUCT.replace("__syncthreads(); // read", ""),
            PRODUCT.replace("float sum = 0;", "float sum = 0; if (i >= m || j >= n) return;"),
            PRODUCT.replace("from < k", "from + 15 < k"),
        ],
    ),
    "coarse_product": Case(
        right=COARSE % (LOADS + SUMS),
        also=[COARSE % (IN_A_ROW + OF_COLUMNS)],
        wrong=[
            COARSE % TILE_BY_TILE,
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
    "online_softmax": Case(
        right=SOFTMAX % ONLINE,
        also=[SOFTMAX % BRANCHES],
        wrong=[
            SOFTMAX % THRICE,  # right, but x is read three times
            SOFTMAX % ONLINE.replace("m = now;", "m = now, y[blockIdx.x * n + i] = v;", 1),
            SOFTMAX % ONLINE.partition("for (int o")[0],  # each lane has its own
            SOFTMAX % ONLINE.replace("now = fmaxf(m, v)", "now = 0").replace("= -1e30f", "= 0"),
        ],
    ),
    "my_attention": Case(
        right=ATTENTION % RUNNING,
        also=[ATTENTION % BY_TILE],
        wrong=[
            ATTENTION % RUNNING.replace("now = fmaxf(m, score)", "now = 0"),  # overflows
            ATTENTION % RUNNING.replace("values[j][c]", "v[(from + j) * 32 + c]"),
        ],
    ),
}
