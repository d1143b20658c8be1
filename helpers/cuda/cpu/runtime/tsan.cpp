// The functions that -fsanitize makes the compiler call: the sanitizers' names, ours behind them.
// The return address, less one, lies in the access's own line.
#include "runtime.h"

#include <stdio.h>

#define RETURN_ADDRESS ((char *)__builtin_return_address(0) - 1)
#define CUDA_TSAN(n)                                                                              \
    void __tsan_read##n(void *p) {                                                                \
        if (n < 4 || !says_nothing(p, n, RETURN_ADDRESS))                                         \
            record_access(p, n, READ, false, RETURN_ADDRESS);                                     \
    }                                                                                             \
    void __tsan_write##n(void *p) { record_access(p, n, WRITE, false, RETURN_ADDRESS); }          \
    void __tsan_unaligned_read##n(void *p) { record_access(p, n, READ, false, RETURN_ADDRESS); }  \
    void __tsan_unaligned_write##n(void *p) { record_access(p, n, WRITE, false, RETURN_ADDRESS); }\
    void __tsan_volatile_read##n(void *p) { record_access(p, n, READ, true, RETURN_ADDRESS); }    \
    void __tsan_volatile_write##n(void *p) { record_access(p, n, WRITE, true, RETURN_ADDRESS); }
extern "C" {
CUDA_TSAN(1)
CUDA_TSAN(2)
CUDA_TSAN(4)
CUDA_TSAN(8)
CUDA_TSAN(16)
void __tsan_read_range(void *p, unsigned long n) { record_access(p, n, READ, false, RETURN_ADDRESS); }
void __tsan_write_range(void *p, unsigned long n) { record_access(p, n, WRITE, false, RETURN_ADDRESS); }
void __tsan_init() {}
void __tsan_func_entry(void *from) { recorder_call(from); }
void __tsan_func_exit() { recorder_return(); }
void __tsan_atomic_thread_fence(int) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}

// UBSan: an index outside a local array (assembly.py has silenced the others: line 0), a pointer
// that is not a multiple of what its type needs, and one that leaves the variable it came from.
struct Location { const char *file; uint32_t line, column; };
struct Type { uint16_t kind, info; char name[1]; };
struct Index { Location where; const Type *array, *index; };
struct Mismatch { Location where; const Type *type; uint8_t log_alignment, kind; };

void __ubsan_handle_out_of_bounds(Index *data, unsigned long index) {
    if (!current || !data->where.line) return;
    char place[256];
    describe_place(place, sizeof place, RETURN_ADDRESS);
    int spare = 64 - (data->index->info >> 1 < 6 ? 1 << (data->index->info >> 1) : 64);
    long long value = data->index->info & 1 ? (long long)(index << spare) >> spare : (long long)index;
    fail("\"error\":\"index\",\"index\":%lld,\"type\":\"%s\",\"column\":%u,%s", value,
         data->array->name, data->where.column, place);
}
void __ubsan_handle_type_mismatch_v1(Mismatch *data, const void *pointer) {
    unsigned alignment = 1u << data->log_alignment;
    if (current && (uintptr_t)pointer % alignment)
        report_misaligned(pointer, alignment, RETURN_ADDRESS);
    // Only in the stack: addresses elsewhere are checked where they are touched, with their names.
    if (!current || (uintptr_t)pointer - stacks_begin >= STACKS_BYTES) return;
    char place[256];
    describe_place(place, sizeof place, RETURN_ADDRESS);
    fail("\"error\":\"local\",\"type\":\"%s\",\"kind\":%d,%s", data->type->name,
         data->kind == 1, place);
}
}
void cuda_read(const void *address, unsigned size) {
    if (launch.check && current && (uintptr_t)address % size) report_misaligned(address, size, RETURN_ADDRESS);
    record_access(address, size, READ, false, RETURN_ADDRESS);
}
void cuda_write(void *address, unsigned size) {
    if (launch.check && current && (uintptr_t)address % size) report_misaligned(address, size, RETURN_ADDRESS);
    record_access(address, size, WRITE, false, RETURN_ADDRESS);
}
