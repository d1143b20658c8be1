// QSGD's codes (Alistarh et al., 2017): a sign and a whole number of levels, `bits` bits each.
//
// A bucket of 512 values has a norm of its own. Value 16 j + k of a bucket goes to lane k, which
// has 32 codes, that is `bits` words of 32 bits: sixteen lanes are packed by the same instructions,
// and no code needs to cross from one lane to another. The last bucket is filled up with zeros.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BUCKET 512
#define HALF 8  // lanes in a vector; two of them go side by side
typedef uint32_t words __attribute__((vector_size(4 * HALF)));
typedef int32_t ints __attribute__((vector_size(4 * HALF)));
typedef float floats __attribute__((vector_size(4 * HALF)));

static inline words next(words x) {  // xorshift (Marsaglia, 2003); a lane's state is never 0
    x ^= x << 13;
    x ^= x >> 17;
    return x ^ x << 5;
}

// Euclidean norm of a bucket; infinite or not a number where a value is.
static inline float norm(const float *v) {
    floats x, sum[4] = {{0}};
    for (int i = 0; i < BUCKET; i += 4 * HALF)
        for (int m = 0; m < 4; m++) {
            memcpy(&x, v + i + m * HALF, sizeof x);
            sum[m] += x * x;
        }
    floats all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    float total = 0;
    for (int k = 0; k < HALF; k++) total += all[k];
    if (total > 1e-30f && total < 1e38f) return sqrtf(total);
    double exact = 0;  // squares leave float's range long before the numbers do
    for (int i = 0; i < BUCKET; i++) exact += (double)v[i] * v[i];
    const float length = sqrt(exact);
    return length < 1e-36f ? 0 : length;  // so small that s / length would be infinite
}

// Code of eight values: |v| s / norm is rounded up with the probability of its fraction.
static inline words code(const float *v, float scale, ints levels, words random, int bits) {
    ints x;  // the bits of eight floats
    memcpy(&x, v, sizeof x);
    floats u = __builtin_convertvector((ints)(random >> 8), floats) * 0x1p-24f;  // [0, 1)
    ints level = __builtin_convertvector((floats)(x & 0x7fffffff) * scale + u, ints);
    ints over = level > levels;  // by rounding only: all ones where it is
    level = (level & ~over) | (over & levels);
    return (words)level | ((words)x >> 31) << (bits - 1);
}

static inline void pack_bits(const float *v, int64_t n, uint32_t *lanes, float *norms, uint32_t *out,
                             const int bits) {
    const ints levels = (ints){0} + ((1 << (bits - 1)) - 1);
    float padded[BUCKET];
    words state[2];
    memcpy(state, lanes, sizeof state);
    for (int64_t begin = 0; begin < n; begin += BUCKET, out += 16 * bits) {
        const float *from = v + begin;
        if (n - begin < BUCKET) {
            memset(padded, 0, sizeof padded);
            from = memcpy(padded, from, (n - begin) * sizeof(float));
        }
        const float length = norm(from), scale = length > 0 ? (float)levels[0] / length : 0;
        norms[begin / BUCKET] = length;
        for (int h = 0; h < 2; h++) {
            words filling = {0}, random = state[h];
            uint32_t *to = out + h * HALF;
#pragma GCC unroll 32
            for (int j = 0; j < 32; j++) {
                const int at = j * bits % 32;
                random = next(random);
                words c = code(from + 16 * j + h * HALF, scale, levels, random, bits);
                filling |= c << at;
                if (at + bits >= 32) {
                    memcpy(to, &filling, sizeof filling);
                    to += 16;
                    filling = at + bits > 32 ? c >> (32 - at) : (words){0};
                }
            }
            state[h] = random;
        }
    }
    memcpy(lanes, state, sizeof state);
}

// Add `factor` times the decoded values to out.
static inline void add_bits(const float *norms, const uint32_t *in, int64_t n, float factor,
                            float *out, const int bits) {
    const uint32_t all = (1u << bits) - 1, level = all >> 1;
    float padded[BUCKET];
    for (int64_t begin = 0; begin < n; begin += BUCKET, in += 16 * bits) {
        const float scale = factor * norms[begin / BUCKET] / (float)level;
        float *to = out + begin;
        if (n - begin < BUCKET) to = memcpy(padded, to, (n - begin) * sizeof(float));
        for (int h = 0; h < 2; h++) {
            const uint32_t *from = in + h * HALF;
            words current;
            memcpy(&current, from, sizeof current);
#pragma GCC unroll 32
            for (int j = 0; j < 32; j++) {
                const int at = j * bits % 32;
                words c = current >> at;
                if (at + bits >= 32 && j < 31) {
                    memcpy(&current, from += 16, sizeof current);
                    if (at + bits > 32) c |= current << (32 - at);
                }
                floats sum, size = __builtin_convertvector((ints)(c & level), floats) * scale;
                words minus = (c & (level + 1)) << (32 - bits);  // the sign's bit to where floats have it
                float *place = to + 16 * j + h * HALF;
                memcpy(&sum, place, sizeof sum);
                sum += (floats)((words)size ^ minus);
                memcpy(place, &sum, sizeof sum);
            }
        }
        if (n - begin < BUCKET) memcpy(out + begin, padded, (n - begin) * sizeof(float));
    }
}

void pack(const float *v, int64_t n, uint32_t *lanes, float *norms, uint32_t *out, int32_t bits) {
    switch (bits) {
        case 2: pack_bits(v, n, lanes, norms, out, 2); break;
        case 3: pack_bits(v, n, lanes, norms, out, 3); break;
        case 4: pack_bits(v, n, lanes, norms, out, 4); break;
        case 5: pack_bits(v, n, lanes, norms, out, 5); break;
    }
}

void add(const float *norms, const uint32_t *in, int64_t n, float factor, float *out, int32_t bits) {
    switch (bits) {
        case 2: add_bits(norms, in, n, factor, out, 2); break;
        case 3: add_bits(norms, in, n, factor, out, 3); break;
        case 4: add_bits(norms, in, n, factor, out, 4); break;
        case 5: add_bits(norms, in, n, factor, out, 5); break;
    }
}
