// Appended to the reader's multiply(): checks it on n x n matrices, then times it and a loop in turn.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define GUARD 4096  // floats before and behind c

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

__attribute__((noinline)) static void loop_ikj(int64_t n, const float *restrict a,
                                               const float *restrict b, float *restrict c) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] = c[i * n + j] + a[i * n + k] * b[k * n + j];
}

static double timed(void (*product)(int64_t, const float *, const float *, float *), int64_t n,
                    const float *a, const float *b, float *c) {
    memset(c, 0, n * n * sizeof(float));
    double began = now();
    product(n, a, b, c);
    return now() - began;
}

static int64_t not_right(int64_t n, const float *c, const double *sum, double sign) {
    int64_t wrong = 0;
    for (int64_t e = 0; e < n * n; e++) wrong += !(fabs(c[e] - sign * sum[e]) < 1e-3 + 1e-4 * n);
    return wrong;
}

static void call_multiply(int64_t n, const float *a, const float *b, float *c) {
    multiply(n, a, b, c);
}

// Numbers that begin where a line of the cache does, as in matmul.py.
static float *on_lines(int64_t count) { return aligned_alloc(64, (4 * count + 63) / 64 * 64); }

int main(int argc, char **argv) {
    int64_t n = atoi(argv[1]), rounds = atoi(argv[2]), seed = atoi(argv[3]), all = n * n;
    float *a = on_lines(all), *b = on_lines(all), *c = on_lines(all + 2 * GUARD);
    float *kept = malloc(8 * all);
    double *sum = calloc(all, sizeof(double));
    for (int64_t e = 0; e < all; e++) {
        a[e] = ((e + seed) * 7919 % 1009) / 1009.0f - 0.4f;
        b[e] = ((e + seed) * 104729 % 997) / 997.0f - 0.6f;
    }
    memcpy(kept, a, 4 * all);
    memcpy(kept + all, b, 4 * all);
    for (int64_t e = 0; e < all + 2 * GUARD; e++) c[e] = e >= GUARD && e < GUARD + all ? 0 : 1e30f;
    multiply(n, a, b, c + GUARD);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++)
                sum[i * n + j] += (double)kept[i * n + k] * kept[all + k * n + j];
    int64_t wrong = not_right(n, c + GUARD, sum, 1), overrun = 0;
    for (int64_t e = 0; e < GUARD; e++) overrun |= c[e] != 1e30f || c[GUARD + all + e] != 1e30f;
    int changed = memcmp(kept, a, 4 * all) || memcmp(kept + all, b, 4 * all);
    for (int64_t e = 0; e < all; e++) b[e] = -kept[all + e];  // nothing kept from the first call helps
    double mine = 1e9, rival = 1e9, spent;
    for (int64_t r = 0; r < rounds; r++) {
        if ((spent = timed(loop_ikj, n, a, b, c + GUARD)) < rival) rival = spent;
        if ((spent = timed(call_multiply, n, a, b, c + GUARD)) < mine) mine = spent;
    }
    if (rounds && !wrong) wrong = not_right(n, c + GUARD, sum, -1);
    printf("\nmeasured: %ld %d %d %.9f %.9f\n", (long)wrong, (int)overrun, changed, mine, rival);
    return 0;
}
