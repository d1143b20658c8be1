// The functions that -fsanitize=thread makes the compiler call at each access: TSan's names, ours
// behind them. The return address, less one, lies in the access's own line.
#include "runtime.h"

#define RETURN_ADDRESS ((char *)__builtin_return_address(0) - 1)
#define CUDA_TSAN(n)                                                                              \
    void __tsan_read##n(void *p) { record_access(p, n, READ, RETURN_ADDRESS); }                   \
    void __tsan_write##n(void *p) { record_access(p, n, WRITE, RETURN_ADDRESS); }                 \
    void __tsan_unaligned_read##n(void *p) { record_access(p, n, READ, RETURN_ADDRESS); }         \
    void __tsan_unaligned_write##n(void *p) { record_access(p, n, WRITE, RETURN_ADDRESS); }       \
    void __tsan_volatile_read##n(void *p) { record_access(p, n, READ, RETURN_ADDRESS); }          \
    void __tsan_volatile_write##n(void *p) { record_access(p, n, WRITE, RETURN_ADDRESS); }        \
    void __tsan_read##n##_pc(void *p, void *pc) { record_access(p, n, READ, pc); }                \
    void __tsan_write##n##_pc(void *p, void *pc) { record_access(p, n, WRITE, pc); }
extern "C" {
CUDA_TSAN(1)
CUDA_TSAN(2)
CUDA_TSAN(4)
CUDA_TSAN(8)
CUDA_TSAN(16)
void __tsan_read_range(void *p, unsigned long n) { record_access(p, n, READ, RETURN_ADDRESS); }
void __tsan_write_range(void *p, unsigned long n) { record_access(p, n, WRITE, RETURN_ADDRESS); }
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
}
void cuda_read(const void *address, unsigned size) {
    record_access(address, size, READ, RETURN_ADDRESS);
}
void cuda_write(void *address, unsigned size) {
    record_access(address, size, WRITE, RETURN_ADDRESS);
}
