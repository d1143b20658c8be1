// A k x k convolution of one channel, zeros outside, three times: as it is written down, without the test at
// each pixel, and with its sums in registers. image, out: height x width floats, row after row. K is set by the compiler's
// command line, so that the loops over the filter unroll.
#include <stdbool.h>
#include <stdint.h>
#define RADIUS (K / 2)

static float at(const float *image, int64_t y, int64_t x, int64_t height, int64_t width) {
    return y < 0 || x < 0 || y >= height || x >= width ? 0 : image[y * width + x];
}

static float one(const float *image, const float *filter, int64_t y, int64_t x, int64_t height,
                 int64_t width) {
    float sum = 0;
    for (int j = 0; j < K; j++)
        for (int i = 0; i < K; i++)
            sum += filter[j * K + i] * at(image, y + j - RADIUS, x + i - RADIUS, height, width);
    return sum;
}

// One output after the other, every pixel tested against the border: rung 1 of the ladder.
void direct(int64_t height, int64_t width, const float *image, const float *filter, float *out) {
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            out[y * width + x] = one(image, filter, y, x, height, width);
}

// The same without the test, where no pixel lies outside: the border alone is tested.
void untested(int64_t height, int64_t width, const float *restrict image,
              const float *restrict filter, float *restrict out) {
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < height; y++) {
        bool inside = y >= RADIUS && y + RADIUS < height && width > 2 * RADIUS;
        for (int64_t x = RADIUS; inside && x < width - RADIUS; x++) {
            float sum = 0;
            for (int j = 0; j < K; j++)
                for (int i = 0; i < K; i++)
                    sum += filter[j * K + i] * image[(y + j - RADIUS) * width + x + i - RADIUS];
            out[y * width + x] = sum;
        }
        for (int64_t x = 0; x < width; x++) {
            if (inside && x == RADIUS) x = width - RADIUS;
            if (x < width) out[y * width + x] = one(image, filter, y, x, height, width);
        }
    }
}

// ROWS x 2 vectors of outputs stay in registers. Each vector of pixels is loaded once and feeds the
// sums of up to K rows: the last rung of the ladder, with a vector in place of a thread.
#define ROWS 4
typedef float row8 __attribute__((vector_size(32), aligned(4)));
#define COLUMNS 16

// The sums have names of their own: in an array the compiler would keep them in memory.
#define FEED(r)                                                          \
    if (row - r >= 0 && row - r < K) { /* filter row of this image row for output row r */ \
        left##r += weights[(row - r) * K + i] * left;                    \
        right##r += weights[(row - r) * K + i] * right;                  \
    }
#define STORE(r)                                \
    *(row8 *)(out + r * width) = left##r;       \
    *(row8 *)(out + r * width + 8) = right##r;

static void block(const float *image, const row8 *weights, float *out, int64_t width) {
    row8 left0 = {0}, left1 = {0}, left2 = {0}, left3 = {0};
    row8 right0 = {0}, right1 = {0}, right2 = {0}, right3 = {0};
#pragma GCC unroll 32
    for (int row = 0; row < ROWS + K - 1; row++)
#pragma GCC unroll 16
        for (int i = 0; i < K; i++) {
            const float *from = image + (row - RADIUS) * width + i - RADIUS;
            row8 left = *(const row8 *)from, right = *(const row8 *)(from + 8);
            FEED(0) FEED(1) FEED(2) FEED(3)
        }
    STORE(0) STORE(1) STORE(2) STORE(3)
}

void rows(int64_t height, int64_t width, const float *image, const float *filter, float *out) {
    row8 weights[K * K];  // each in all lanes, made once
    for (int e = 0; e < K * K; e++) weights[e] = filter[e] - (row8){0};
    const int64_t last = width - RADIUS - COLUMNS;  // where the last whole block begins
#pragma omp parallel for schedule(static)
    for (int64_t top = 0; top < height; top += ROWS) {
        int64_t bottom = top + ROWS < height ? top + ROWS : height;
        bool inside = top >= RADIUS && top + ROWS + RADIUS <= height && last >= RADIUS;
        for (int64_t x = RADIUS; inside && x < last + COLUMNS; x += COLUMNS) {
            if (x > last) x = last;  // over some outputs again: quicker than one by one
            block(image + top * width + x, weights, out + top * width + x, width);
        }
        for (int64_t y = top; y < bottom; y++)  // the border
            for (int64_t x = 0; x < width; x++) {
                if (inside && x == RADIUS) x = width - RADIUS;
                if (x < width) out[y * width + x] = one(image, filter, y, x, height, width);
            }
    }
}
