// What the parts of the CPU runner share: the launch, the running block, and the ways to fail.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <vector>

struct uint3 { unsigned x, y, z; };

constexpr int MAX_THREADS = 1024;              // of a block, CUDA's limit
constexpr size_t STACK_BYTES = 128 * 1024;     // of a fiber; its lowest page is a guard
constexpr size_t STACKS_BYTES = MAX_THREADS * STACK_BYTES;
constexpr int MAX_ARRAYS = 200;                // of a launch

enum State : uint8_t { READY, AT_BARRIER, AT_WARP, AT_ACTIVE, DONE };

struct Fiber {
    void *context;       // saved stack pointer (or ucontext_t)
    int stack;           // index of its stack, -1 while it has none
    uint3 index;
    State state;
    int line;            // of the barrier or warp call it waits at
    int site, next_site; // which call of that line; told before each call (cuda_on_cpu.h)
    unsigned mask;       // of the warp call
    unsigned long long value, result;  // offered to and received from the warp call
    int operation, lane, width;
};

enum Space : uint8_t { GLOBAL, SHARED, CONSTANT };
enum Kind : uint8_t { READ, WRITE, ATOMIC };

struct Cell;
struct Array {           // an argument, a __shared__, a __constant__ or a __device__ variable
    uintptr_t begin;     // of a __shared__ one its offset from the thread-local anchor
    size_t bytes, itemsize;
    bool writable;
    Space space;
    char name[64];
    char *mapping;       // of an argument: mapped with a gigabyte of nothing on either side
    size_t mapped;
    Cell *cells;         // who touched it
    uint64_t *calm;      // of each cell the moment in which a plain read of it says nothing new
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
    const char *ways;    // where each thread's way through the code is kept; null: it is not noted
    uint64_t way_limit;  // most pieces of code
    bool every_block = true;
    std::vector<uint64_t> kept_blocks;
    Array arrays[MAX_ARRAYS];  // the arguments come first
    int region_count;
    int array_count;
};

extern Launch launch;
extern thread_local Fiber *current;   // null outside a kernel
extern thread_local uint64_t block_serial;
extern thread_local unsigned barrier_epoch;
extern thread_local unsigned warp_epochs[MAX_THREADS / 32];
extern thread_local uint64_t moments[1 + MAX_THREADS / 32];  // between two barriers; of each warp
extern thread_local uintptr_t stacks_begin;  // of all fibers of this thread
extern thread_local unsigned current_thread;  // linear index in its block
extern thread_local char cuda_tls_anchor;

bool read_launch();      // requests.cpp: the next one into `launch`, false where they end

// scheduler.cpp
void run_grid();
void give_way();         // lets the block's other threads run

// Ends the process with one line of JSON on the answer pipe; the first caller wins.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void describe_place(char *text, size_t size, void *pc);   // "block": [...], "thread": [...], ...

// recorder.cpp
constexpr uint64_t ALWAYS = ~0ull;
struct Recent { uintptr_t pc, begin; size_t bytes; const uint64_t *calm; };  // a plain read of words
extern thread_local Recent recent_reads[1024];  // by a hash of the pc
extern thread_local bool look_closely;          // at each access: it is to be counted, or may signal
inline size_t slot(uintptr_t pc) { return (pc ^ pc >> 10) & 1023; }
// Nearly every read says nothing that is not known: see calm_after_read in recorder.cpp.
inline bool says_nothing(const void *pointer, unsigned size, void *pc) {
    const Recent &read = recent_reads[slot((uintptr_t)pc)];
    size_t offset = (uintptr_t)pointer - read.begin;
    if (read.pc != (uintptr_t)pc || offset >= read.bytes || look_closely) return false;
    for (unsigned i = 0; i < size / 4; i++) {
        uint64_t calm = read.calm[offset / 4 + i];
        if (calm != moments[0] && calm != moments[1 + current_thread / 32] && calm != ALWAYS)
            return false;
    }
    return true;
}
void recorder_begin();
void recorder_thread_begin();   // of a thread of the operating system
void recorder_thread_end();
void recorder_call(void *from);  // of a function of the kernel
void recorder_return();
void recorder_fiber_end();      // of a thread of the kernel
void recorder_block_begin();
void recorder_block_end();
void recorder_end(char *answer, size_t size);
void record_access(const void *address, unsigned size, Kind kind, bool is_volatile, void *pc);
[[noreturn]] void report_misaligned(const void *address, unsigned alignment, void *pc);

// paths.cpp
void paths_begin();
void paths_block_end();
int paths_end(char *answer, size_t size);

// guard.cpp: of the fibers' stacks, in a program whose local variables have gaps between them
extern const bool cuda_guards_locals;  // generated after the kernel's source (see compiler.py)
void guard_begin(void *stacks);
void guard_end(void *stacks);

// order.cpp
void order_begin();
void order_block_begin();
void order_fence();
void order_learn_late();
struct Reading { uintptr_t address; bool shared; };   // an atomic's value, not learned from yet
extern thread_local Reading reading[MAX_THREADS];
extern std::atomic<bool> order_in_use;                // a fence has been passed
// The running thread accesses something: what it read before has arrived.
inline void order_arrived() {
    if (order_in_use.load(std::memory_order_relaxed)) order_learn_late();
    else reading[current_thread].address = 0;         // nothing was published
}
void order_reads(uintptr_t address, bool shared);
void order_writes(uintptr_t address, bool shared);
void order_meet(int first, int count, uint64_t mask, bool whole_block);
bool order_knows(uint32_t block, uint32_t epoch, unsigned thread, uint32_t fences);
extern thread_local uint32_t fences_passed[MAX_THREADS];
