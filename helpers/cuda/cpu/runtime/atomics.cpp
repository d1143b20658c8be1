// CUDA's atomics, apart from the kernel's source so that the recorder sees each as one access.
#include "runtime.h"

#include <time.h>

static thread_local unsigned idle;  // atomics in a row that changed nothing: a thread that waits

template <typename Bits> static void notice(Bits before, Bits after) {
    if (before != after) {
        idle = 0;
    } else if (++idle == 4) {
        idle = 0;
        give_way();
    }
}

// Replaces *address by change(*address); Bits is an integer of T's size.
template <typename Bits, typename T, typename Change>
static T update(T *address, void *pc, Change change) {
    static_assert(sizeof(Bits) == sizeof(T), "");
    if (launch.check) {
        if ((uintptr_t)address % sizeof(T)) report_misaligned(address, sizeof(T), pc);
        record_access(address, sizeof(T), ATOMIC, false, pc);
    }
    Bits old = __atomic_load_n((Bits *)address, __ATOMIC_RELAXED), wanted;
    T before;
    do {
        __builtin_memcpy(&before, &old, sizeof before);
        T after = change(before);
        __builtin_memcpy(&wanted, &after, sizeof after);
    } while (!__atomic_compare_exchange_n((Bits *)address, &old, wanted, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED));
    notice(old, wanted);
    return before;
}

#define CALLER ((char *)__builtin_return_address(0) - 1)
#define ATOMIC_OF(Bits, T, name, expression)                                      \
    T name(T *address, T value) {                                                 \
        return update<Bits>(address, CALLER, [=](T old) -> T { return expression; }); \
    }
#define COMPARE_AND_SWAP(Bits, T)                                                 \
    T atomicCAS(T *address, T expected, T value) {                                \
        return update<Bits>(address, CALLER,                                      \
                            [=](T old) -> T { return old == expected ? value : old; }); \
    }
#define INTEGERS(Bits, T)                                          \
    ATOMIC_OF(Bits, T, atomicAdd, old + value)                     \
    ATOMIC_OF(Bits, T, atomicSub, old - value)                     \
    ATOMIC_OF(Bits, T, atomicExch, (void(old), value))             \
    ATOMIC_OF(Bits, T, atomicMin, value < old ? value : old)       \
    ATOMIC_OF(Bits, T, atomicMax, value > old ? value : old)       \
    ATOMIC_OF(Bits, T, atomicAnd, old & value)                     \
    ATOMIC_OF(Bits, T, atomicOr, old | value)                      \
    ATOMIC_OF(Bits, T, atomicXor, old ^ value)                     \
    COMPARE_AND_SWAP(Bits, T)
INTEGERS(unsigned, int)
INTEGERS(unsigned, unsigned)
INTEGERS(unsigned long long, long long)
INTEGERS(unsigned long long, unsigned long long)
COMPARE_AND_SWAP(unsigned short, unsigned short)
ATOMIC_OF(unsigned, unsigned, atomicInc, old >= value ? 0 : old + 1)
ATOMIC_OF(unsigned, unsigned, atomicDec, old == 0 || old > value ? value : old - 1)
ATOMIC_OF(unsigned, float, atomicAdd, old + value)
ATOMIC_OF(unsigned, float, atomicExch, (void(old), value))
ATOMIC_OF(unsigned long long, double, atomicAdd, old + value)
ATOMIC_OF(unsigned long long, double, atomicExch, (void(old), value))
#define CHANGED_BY(Bits)                                                              \
    Bits cuda_atomic_bits(Bits *address, Bits value, Bits (*change)(Bits, Bits)) {    \
        return update<Bits>(address, CALLER, [=](Bits old) { return change(old, value); }); \
    }
CHANGED_BY(unsigned short)
CHANGED_BY(unsigned)

void cuda_fence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    order_fence();
}

void cuda_nap() { give_way(); }

long long cuda_clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
