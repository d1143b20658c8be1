// What the parts of the CPU runner share: the launch, the running block, and the ways to fail.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <vector>

struct uint3 { unsigned x, y, z; };

constexpr int MAX_THREADS = 1024;              // of a block, CUDA's limit
constexpr size_t STACK_BYTES = 128 * 1024;     // of a fiber; its lowest page is a guard

enum State : uint8_t { READY, AT_BARRIER, AT_WARP, DONE };

struct Fiber {
    void *context;       // saved stack pointer (or ucontext_t)
    int stack;           // index of its stack, -1 while it has none
    uint3 index;
    State state;
    int line;            // of the barrier or warp call it waits at
    unsigned mask;       // of the warp call
    unsigned long long value, result;  // offered to and received from the warp call
    int operation, lane, width;
};

struct Region {          // one array, mapped with a gigabyte of nothing on either side
    uintptr_t begin;
    size_t bytes, itemsize;
    bool writable;
    char name[64];
    char *mapping;
    size_t mapped;
};

struct Shared {          // one __shared__ variable, at an offset from the thread-local anchor
    ptrdiff_t offset;
    size_t bytes;
    size_t cells;        // where its shadow begins
    char name[64];
};

struct Launch {
    void (*kernel)(void **);
    void **arguments;
    uint3 grid, block;
    size_t dynamic_shared;
    int threads;         // of the operating system
    long milliseconds;   // the time limit
    bool check;
    int granule;         // bytes per shadow cell
    const char *events;  // where single accesses are kept; null: nothing is recorded
    uint64_t event_limit;
    bool every_block = true;
    std::vector<uint64_t> kept_blocks;
    Region regions[64];
    int region_count;
    Shared shared[64];
    int shared_count;
};

extern Launch launch;
extern thread_local Fiber *current;   // null outside a kernel
extern thread_local uint64_t block_serial;
extern thread_local unsigned barrier_epoch;
extern thread_local unsigned warp_epochs[MAX_THREADS / 32];
extern thread_local uintptr_t stacks_begin;  // of all fibers of this thread
extern thread_local unsigned current_thread;  // linear index in its block
constexpr size_t STACKS_BYTES = MAX_THREADS * STACK_BYTES;

bool read_launch();      // requests.cpp: the next one into `launch`, false where they end
void run_grid();         // scheduler.cpp

// Ends the process with one line of JSON on the answer pipe; the first caller wins.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void describe_place(char *text, size_t size, void *pc);   // "block": [...], "thread": [...], ...

// recorder.cpp
void recorder_begin();
void recorder_block_begin();
void recorder_block_end();
void recorder_end(char *answer, size_t size);
enum Kind { READ = 0, WRITE = 1, ATOMIC = 2 };
void record_access(const void *address, unsigned size, Kind kind, void *pc);

extern thread_local char cuda_tls_anchor;
extern "C" char *cuda_dynamic_shared_address();
