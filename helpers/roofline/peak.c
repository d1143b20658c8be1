// Peak arithmetic: twelve independent chains of x = x * a + b, kept in registers. Twelve, because
// a unit that starts two operations each cycle and finishes each after four or five needs ten in
// flight. REAL is float or double, WIDTH the bytes of a register (sizeof(REAL): scalar).
#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#if SCALAR
typedef REAL vec;
#else
typedef REAL vec __attribute__((vector_size(WIDTH)));
#endif

static REAL chains(int64_t steps, REAL a, REAL b) {
    vec x[12], va = {0}, vb = {0};
#if SCALAR
    va = a; vb = b;
#else
    va += a; vb += b;
#endif
    for (int k = 0; k < 12; k++) x[k] = va + (REAL)k;
    for (int64_t s = 0; s < steps; s++) {
        for (int k = 0; k < 12; k++) x[k] = x[k] * va + vb;
    }
    vec sum = x[0];
    for (int k = 1; k < 12; k++) sum += x[k];
#if SCALAR
    return sum;
#else
    REAL all = 0;
    for (int l = 0; l < (int)(WIDTH / sizeof(REAL)); l++) all += sum[l];
    return all;
#endif
}

// Flops done: threads * steps * 12 * lanes * 2. The sum is returned so that no step can be left out.
double peak(int64_t steps, int32_t threads, double a, double b) {
    double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    total += chains(steps, (REAL)a, (REAL)b);
    return total;
}
