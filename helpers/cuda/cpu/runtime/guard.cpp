// Receives what a program compiled with -fsanitize=kernel-address calls before each access: is it
// between the local variables of a function, where the compiler has left room and marked it?
//
// Each function marks its frame in shadow memory, one byte for eight of the stack, at an address
// that compiler.py gives the compiler: only the shadow of the fibers' stacks exists, and only
// accesses to these stacks are looked at. The rest is the recorder's, in a program of its own.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0  // the address is then a wish, and the answer is compared with it
#endif

namespace {

constexpr uintptr_t OFFSET = 0x7fff8000;     // compiler.py's SHADOW
constexpr uint8_t BEFORE = 0xf1;             // the compiler's mark: a frame begins here
constexpr uintptr_t FRAME = 0x41b58ab3;      // the compiler's first word of a frame

uint8_t *shadow(uintptr_t address) { return (uint8_t *)((address >> 3) + OFFSET); }

bool marked(uintptr_t address) {
    int8_t here = (int8_t)*shadow(address);  // 0: all eight bytes may be touched; 1 to 7: so many
    return here < 0 || (here && (int)(address & 7) >= here);
}

// The frame's own description: how many variables, then offset, bytes, length and text of each.
[[noreturn]] void report(uintptr_t address, unsigned size, Kind kind, void *pc) {
    uintptr_t at = address & ~7ul;
    while (at > stacks_begin && *shadow(at) != BEFORE) at -= 8;
    while (at > stacks_begin && *shadow(at - 8) == BEFORE) at -= 8;
    const uintptr_t *frame = (const uintptr_t *)at;
    char name[64] = "a local variable", place[256];
    long from = 0, bytes = 0, least = -1;
    if (frame[0] == FRAME) {
        char *text = (char *)frame[1];
        for (long left = strtol(text, &text, 10); left > 0; left--) {
            long begin = strtol(text, &text, 10), length = strtol(text, &text, 10);
            long letters = strtol(text, &text, 10), offset = (long)(address - at) - begin;
            long away = offset < 0 ? -offset : offset - length + 1;
            if (least < 0 || away < least) {
                least = away, from = offset, bytes = length;
                snprintf(name, sizeof name, "%.*s", (int)letters, text + 1);
                if (char *line = strchr(name, ':')) *line = 0;
            }
            text += 1 + letters;
        }
    }
    describe_place(place, sizeof place, pc);
    fail("\"error\":\"guard\",\"variable\":\"%s\",\"offset\":%ld,\"bytes\":%ld,\"size\":%u,"
         "\"kind\":%d,%s", name, from, bytes, size, kind, place);
}

__attribute__((noinline)) void look_closer(uintptr_t address, unsigned size, Kind kind, void *pc) {
    if (!current) return;
    uintptr_t last = address + size - 1;
    for (uintptr_t a = address; a <= last; a = (a | 7) + 1)  // of each eight bytes the last one
        if (marked((a | 7) < last ? a | 7 : last)) report(address, size, kind, pc);
}

inline void look(uintptr_t address, unsigned size, Kind kind, void *pc) {
    if (address - stacks_begin >= STACKS_BYTES || !size) return;
    if (*shadow(address) || (address & 7) + size > 8) look_closer(address, size, kind, pc);
}

}  // namespace

void guard_begin(void *begin) {
    void *place = shadow((uintptr_t)begin);
    void *got = mmap(place, STACKS_BYTES / 8, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != place) fail("\"error\":\"unguarded\"");
}

void guard_end(void *begin) { munmap(shadow((uintptr_t)begin), STACKS_BYTES / 8); }

#define RETURN_ADDRESS ((char *)__builtin_return_address(0) - 1)
#define CUDA_GUARD(n)                                                                             \
    void __asan_load##n##_noabort(uintptr_t a) { look(a, n, READ, RETURN_ADDRESS); }              \
    void __asan_store##n##_noabort(uintptr_t a) { look(a, n, WRITE, RETURN_ADDRESS); }
extern "C" {
CUDA_GUARD(1)
CUDA_GUARD(2)
CUDA_GUARD(4)
CUDA_GUARD(8)
CUDA_GUARD(16)
void __asan_loadN_noabort(uintptr_t a, size_t n) { look(a, n, READ, RETURN_ADDRESS); }
void __asan_storeN_noabort(uintptr_t a, size_t n) { look(a, n, WRITE, RETURN_ADDRESS); }
void __asan_handle_no_return() {}
}
