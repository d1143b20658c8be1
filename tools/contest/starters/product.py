"""A matrix product in C, as in notebook 07's project. The time of the fastest call counts.

It computes C = AB for n × n matrices, stored row after row; n is a multiple of 48, and c holds
zeros at the call. <stdint.h> is included already.
"""

product = """
void multiply(int64_t n, const float *a, const float *b, float *c) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < n; k++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}
"""
