// CUDA's atomics, apart from the kernel's source so that the recorder sees each as one access.
#include "runtime.h"

#define RECORD \
    if (launch.check) record_access(address, sizeof *address, ATOMIC, __builtin_return_address(0))

#define INTEGERS(T)                                                                            \
    T atomicAdd(T *address, T value) {                                                         \
        RECORD;                                                                                \
        return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);                           \
    }                                                                                          \
    T atomicSub(T *address, T value) {                                                         \
        RECORD;                                                                                \
        return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);                           \
    }                                                                                          \
    T atomicExch(T *address, T value) {                                                        \
        RECORD;                                                                                \
        return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);                          \
    }                                                                                          \
    static T replace_if(T *address, T value, bool smaller) {                                   \
        T old = __atomic_load_n(address, __ATOMIC_RELAXED);                                    \
        while ((smaller ? value < old : value > old) &&                                        \
               !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED,     \
                                            __ATOMIC_RELAXED)) {                               \
        }                                                                                      \
        return old;                                                                            \
    }                                                                                          \
    T atomicMin(T *address, T value) {                                                         \
        RECORD;                                                                                \
        return replace_if(address, value, true);                                               \
    }                                                                                          \
    T atomicMax(T *address, T value) {                                                         \
        RECORD;                                                                                \
        return replace_if(address, value, false);                                              \
    }
INTEGERS(int)
INTEGERS(unsigned)
INTEGERS(unsigned long long)

template <typename T, typename Bits>
static T swap_loop(T *address, T value, bool add) {
    Bits old = __atomic_load_n((Bits *)address, __ATOMIC_RELAXED), wanted;
    T before;
    do {
        __builtin_memcpy(&before, &old, sizeof before);
        T after = add ? before + value : value;
        __builtin_memcpy(&wanted, &after, sizeof after);
    } while (!__atomic_compare_exchange_n((Bits *)address, &old, wanted, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return before;
}
float atomicAdd(float *address, float value) {
    RECORD;
    return swap_loop<float, unsigned>(address, value, true);
}
double atomicAdd(double *address, double value) {
    RECORD;
    return swap_loop<double, unsigned long long>(address, value, true);
}
float atomicExch(float *address, float value) {
    RECORD;
    return swap_loop<float, unsigned>(address, value, false);
}
template <typename T> static T compare_and_swap(T *address, T expected, T value) {
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return expected;
}
int atomicCAS(int *address, int expected, int value) {
    RECORD;
    return compare_and_swap(address, expected, value);
}
unsigned atomicCAS(unsigned *address, unsigned expected, unsigned value) {
    RECORD;
    return compare_and_swap(address, expected, value);
}
