// C += A B in every order of the three loops, by dot products of eight kinds, in blocks, and with a
// tile in registers. Row-major n x n arrays of float that do not overlap. Compile with
// -DTYPE="volatile float" to make every access of the loop orders happen as written (for counting
// cache misses).
#include <stdint.h>
#ifndef TYPE
#define TYPE float
#endif

#define LOOP(x) for (int64_t x = 0; x < n; x++)
#define ORDER(p, q, r)                                                              \
    void matmul_##p##q##r(int64_t n, TYPE *restrict a, TYPE *restrict b, TYPE *restrict c) { \
        LOOP(p) LOOP(q) LOOP(r) c[i * n + j] = c[i * n + j] + a[i * n + k] * b[k * n + j]; \
    }
ORDER(i, j, k)
ORDER(i, k, j)
ORDER(j, i, k)
ORDER(j, k, i)
ORDER(k, i, j)
ORDER(k, j, i)

// ijk as dot products, in 2 x 2 x 2 kinds. B as it is, or already turned (its rows were columns): then
// the inner loop's steps are 1. SUMS sums, of which none waits for another: 1 or 8. WIDE numbers in
// each sum: 1, or 8 in a vector. n is a multiple of 64. Compile without automatic vectors.
typedef float row1;
typedef float row8 __attribute__((vector_size(32), aligned(4)));
static float all1(row1 x) { return x; }
static float all8(row8 x) { return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])); }
static row1 column1(const float *b, int64_t n) { return *b; }
static row8 column8(const float *b, int64_t n) {
    return (row8){b[0], b[n], b[2 * n], b[3 * n], b[4 * n], b[5 * n], b[6 * n], b[7 * n]};
}

#define DOTS(WIDE, SUMS, KIND, OF_B)                                                              \
    void matmul_dots_##KIND##_##SUMS##_##WIDE(int64_t n, const float *restrict a,                 \
                                              const float *restrict b, float *restrict c) {       \
        LOOP(i) LOOP(j) {                                                                         \
            row##WIDE s[SUMS] = {0};                                                              \
            for (int64_t k = 0; k < n; k += WIDE * SUMS)                                          \
                for (int u = 0; u < SUMS; u++) {                                                  \
                    int64_t l = k + WIDE * u;                                                     \
                    s[u] += *(const row##WIDE *)(a + i * n + l) * (OF_B);                         \
                }                                                                                 \
            for (int u = 1; u < SUMS; u++) s[0] += s[u];                                          \
            c[i * n + j] += all##WIDE(s[0]);                                                      \
        }                                                                                         \
    }
#define AS_IT_IS(WIDE, SUMS) DOTS(WIDE, SUMS, jumps, column##WIDE(b + l * n + j, n))
#define TURNED(WIDE, SUMS) DOTS(WIDE, SUMS, turned, *(const row##WIDE *)(b + j * n + l))
AS_IT_IS(1, 1)
AS_IT_IS(1, 8)
AS_IT_IS(8, 1)
AS_IT_IS(8, 8)
TURNED(1, 1)
TURNED(1, 8)
TURNED(8, 1)
TURNED(8, 8)

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

// Blocks of side t: three of them must fit the cache.
void matmul_blocked(int64_t n, int64_t t, float *restrict a, float *restrict b, float *restrict c) {
    for (int64_t ii = 0; ii < n; ii += t)
        for (int64_t kk = 0; kk < n; kk += t)
            for (int64_t jj = 0; jj < n; jj += t)
                for (int64_t i = ii; i < least(ii + t, n); i++)
                    for (int64_t k = kk; k < least(kk + t, n); k++) {
                        float x = a[i * n + k];
                        for (int64_t j = jj; j < least(jj + t, n); j++)
                            c[i * n + j] += x * b[k * n + j];
                    }
}

// A tile of C, ROWS x COLS, stays in registers while k runs: each value of A and B that is loaded
// serves COLS or ROWS operations. b is first copied into panels of COLS columns, so that it is read
// from beginning to end. n must be a multiple of ROWS and COLS; work holds n * n floats.
#define ROWS 6
#define COLS 16

static void tile(int64_t n, int64_t kk, int64_t depth, const float *restrict a,
                 const float *restrict panel, float *restrict c) {
    row8 acc[ROWS][2];
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < 2; h++) acc[r][h] = *(row8 *)(c + r * n + 8 * h);
    for (int64_t k = 0; k < depth; k++) {
        row8 left = *(row8 *)(panel + k * COLS), right = *(row8 *)(panel + k * COLS + 8);
        for (int r = 0; r < ROWS; r++) {
            float x = a[r * n + kk + k];
            acc[r][0] += x * left;
            acc[r][1] += x * right;
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < 2; h++) *(row8 *)(c + r * n + 8 * h) = acc[r][h];
}

void matmul_tiled(int64_t n, float *restrict a, float *restrict b, float *restrict c,
                  float *restrict work) {
    const int64_t deep = 256;
    for (int64_t kk = 0; kk < n; kk += deep) {
        int64_t depth = least(deep, n - kk);
        for (int64_t j = 0; j < n; j += COLS)
            for (int64_t k = 0; k < depth; k++)
                for (int64_t l = 0; l < COLS; l++)
                    work[j * depth + k * COLS + l] = b[(kk + k) * n + j + l];
        for (int64_t i = 0; i < n; i += ROWS)
            for (int64_t j = 0; j < n; j += COLS)
                tile(n, kk, depth, a + i * n, work + j * depth, c + i * n + j);
    }
}
