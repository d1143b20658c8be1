// Bandwidth and latency of caches and memory. Every result is returned or written to memory.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef double vec __attribute__((vector_size(WIDTH), aligned(8)));
#define LANES ((int64_t)(WIDTH / sizeof(double)))
#define ONCE_MORE __asm__ volatile("" ::: "memory")  // the next round must read memory again

// Each thread works `rounds` times on its own part of the arrays, `count` doubles each; parts lie
// `count` apart. Eight sums run side by side so that additions never hold up the loads.
double read_sum(const double *x, int64_t count, int64_t rounds, int32_t threads) {
    double total = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : total)
    for (int32_t t = 0; t < threads; t++) {
        const double *own = x + t * count;
        vec sum[8] = {0};
        for (int64_t r = 0; r < rounds; r++) {
            for (int64_t i = 0; i + 8 * LANES <= count; i += 8 * LANES)
                for (int k = 0; k < 8; k++) sum[k] += *(const vec *)(own + i + k * LANES);
            ONCE_MORE;
        }
        for (int k = 0; k < 8; k++)
            for (int l = 0; l < LANES; l++) total += sum[k][l];
    }
    return total;
}

void copy(double *restrict y, const double *restrict x, int64_t count, int64_t rounds,
          int32_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int32_t t = 0; t < threads; t++)
        for (int64_t r = 0; r < rounds; r++) {
            for (int64_t i = t * count; i < (t + 1) * count; i++) y[i] = x[i];
            ONCE_MORE;
        }
}

void triad(double *restrict y, const double *restrict x, const double *restrict z, double s,
           int64_t count, int64_t rounds, int32_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int32_t t = 0; t < threads; t++)
        for (int64_t r = 0; r < rounds; r++) {
            for (int64_t i = t * count; i < (t + 1) * count; i++) y[i] = x[i] + s * z[i];
            ONCE_MORE;
        }
}

// In place: no line is fetched only to be written, as it is for copy and triad.
void update(double *restrict y, const double *restrict x, double s, int64_t count, int64_t rounds,
            int32_t threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int32_t t = 0; t < threads; t++)
        for (int64_t r = 0; r < rounds; r++) {
            for (int64_t i = t * count; i < (t + 1) * count; i++) y[i] += s * x[i];
            ONCE_MORE;
        }
}

// Link `count` slots, `stride` bytes apart, into one random cycle (Sattolo 1986): no prefetcher
// guesses it, and each slot is visited once a round. With `second` > 0 each visit goes on to the
// word `second` bytes further before it leaves: a hit while that word is in the same line.
void link_cycle(char *base, int64_t count, int64_t stride, int64_t second, uint64_t seed) {
    int64_t *order = malloc(count * sizeof(int64_t));
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        int64_t j = (int64_t)((seed >> 33) % (uint64_t)i), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int64_t i = 0; i < count; i++) {  // order is a permutation of one cycle
        char *from = base + i * stride, *to = base + order[i] * stride;
        if (second) {
            *(char **)from = from + second;
            *(char **)(from + second) = to;
        } else {
            *(char **)from = to;
        }
    }
    free(order);
}

// Follow the links: each load needs the one before. Returns where it arrived.
void *chase(char *start, int64_t steps) {
    char *p = start;
    for (int64_t s = 0; s < steps; s += 8) {
        p = *(char **)p; p = *(char **)p; p = *(char **)p; p = *(char **)p;
        p = *(char **)p; p = *(char **)p; p = *(char **)p; p = *(char **)p;
    }
    return p;
}

// A chain of additions, one cycle each on every processor in use: steps / seconds = frequency.
uint64_t count_cycles(int64_t steps, uint64_t k) {
    uint64_t x = k;
    for (int64_t s = 0; s < steps; s += 16) {
#define ADD x += k; __asm__ volatile("" : "+r"(x));
        ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD
    }
    return x;
}

// Give each thread a core of its own, or (on = 0) let it go where the process may: two threads that
// the system leaves on one core measure half of what memory does.
void spread(int32_t threads, int32_t on) {
#ifdef __linux__
    static cpu_set_t all;
    if (on) sched_getaffinity(0, sizeof all, &all);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int32_t t = 0; t < threads; t++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        for (int cpu = 0, left = t; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &all) && left-- == 0) CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, on ? &one : &all);
    }
#endif
}
