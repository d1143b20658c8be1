"""Right and wrong answers to the softmax and the attention of notebook 15."""

from tests.exercises.case import Case

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
    "online_softmax": Case(
        right=SOFTMAX % ONLINE,
        also=[SOFTMAX % BRANCHES],
        wrong=[
            SOFTMAX % THRICE,  # right, but x is read three times
            SOFTMAX % ONLINE.replace("m = now;", "m = now, y[blockIdx.x * n + i] = v;", 1),
            SOFTMAX % ONLINE.partition("for (int o")[0],  # each lane has its own
            SOFTMAX % ONLINE.replace("now = fmaxf(m, v)", "now = 0").replace("= -1e30f", "= 0"),
            SOFTMAX % ONLINE.replace("i < n;", "i <= n;"),
        ],
    ),
    "my_attention": Case(
        right=ATTENTION % RUNNING,
        also=[ATTENTION % BY_TILE],
        wrong=[
            ATTENTION % RUNNING.replace("s[c] * shrink", "s[c]"),
            ATTENTION % RUNNING.replace("now = fmaxf(m, score)", "now = 0"),  # overflows
            ATTENTION % RUNNING.replace(" && from + j < n", ""),
            ATTENTION % RUNNING.replace("keys[j][c]", "k[(from + j) * 32 + c]"),
            ATTENTION % RUNNING.replace("values[j][c]", "v[(from + j) * 32 + c]"),
        ],
    ),
}
