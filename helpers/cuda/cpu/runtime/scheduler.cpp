// Runs the threads of each block as fibers, switching at barriers; spreads blocks over cores.
#include "runtime.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

thread_local uint3 threadIdx, blockIdx;
uint3 blockDim, gridDim;
Launch launch;
thread_local Fiber *current = nullptr;
thread_local uint64_t block_serial = 0;
thread_local unsigned barrier_epoch = 0;
thread_local unsigned warp_epochs[MAX_THREADS / 32];
thread_local uint64_t moments[1 + MAX_THREADS / 32];
static thread_local uint64_t last_moment;
thread_local char cuda_tls_anchor;

static thread_local Fiber *fibers = nullptr;
static thread_local char *stacks = nullptr;
static thread_local int free_stacks[MAX_THREADS];
static thread_local int free_count = 0;
static thread_local void *scheduler_context;

thread_local uintptr_t stacks_begin;
thread_local unsigned current_thread;

#if defined(__x86_64__) && !defined(CUDA_UCONTEXT)
// Saves what the System V ABI asks a callee to keep: a switch costs a few nanoseconds, where
// swapcontext() makes two system calls.
extern "C" void cuda_switch(void **save, void *load);
asm(R"(
.text
.globl cuda_switch
.type cuda_switch, @function
cuda_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_switch, .-cuda_switch
)");
static void *new_context(char *stack, int, void (*entry)()) {
    // Neighbouring stacks start on different cache lines: all at one page offset would evict
    // each other.
    uintptr_t top = (uintptr_t)stack + STACK_BYTES - 64 * (((uintptr_t)stack / STACK_BYTES) % 64);
    void **slot = (void **)(top - 8);  // as after a call: 8 below a multiple of 16
    *slot = nullptr;
    *--slot = (void *)entry;
    for (int i = 0; i < 6; i++) *--slot = nullptr;
    return slot;
}
static void to_fiber(Fiber *fiber) { cuda_switch(&scheduler_context, fiber->context); }
static void to_scheduler(Fiber *fiber) { cuda_switch(&fiber->context, scheduler_context); }
#else
#include <ucontext.h>
static thread_local ucontext_t contexts[MAX_THREADS], home;
static void *new_context(char *stack, int index, void (*entry)()) {
    ucontext_t *context = &contexts[index];
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}
static void to_fiber(Fiber *fiber) { swapcontext(&home, (ucontext_t *)fiber->context); }
static void to_scheduler(Fiber *fiber) { swapcontext((ucontext_t *)fiber->context, &home); }
#endif

static thread_local std::atomic<uint64_t> switches;  // watched by the clock, see run_grid

static void fiber_main() {
    launch.kernel(launch.arguments);
    if (launch.check) recorder_fiber_end();
    current->state = DONE;
    to_scheduler(current);
    abort();  // a finished fiber is never resumed
}

static void resume(Fiber *fiber, int index) {
    if (fiber->stack < 0) {
        fiber->stack = free_stacks[--free_count];
        fiber->context = new_context(stacks + fiber->stack * STACK_BYTES, index, fiber_main);
    }
    current = fiber;
    current_thread = index;
    threadIdx = fiber->index;
    switches.fetch_add(1, std::memory_order_relaxed);
    to_fiber(fiber);
    current = nullptr;
    if (fiber->state == DONE) free_stacks[free_count++] = fiber->stack;
}

// A thread that waits for another in a loop must let it run: at its atomics (see atomics.cpp), at
// what the recorder sees it read again and again, and, where it says nothing, at the clock's tick.
void give_way() {
    if (current) to_scheduler(current);
}

static int block_size() { return launch.block.x * launch.block.y * launch.block.z; }

// Where a thread waits: a call of the source.
static bool same_call(const Fiber &a, const Fiber &b) {
    return a.state == b.state && a.line == b.line && a.site == b.site;
}

void cuda_site(int number) { current->next_site = number; }

static void arrive(Fiber *fiber, int line) {
    fiber->line = line;
    fiber->site = fiber->next_site;
    fiber->next_site = -1;  // a call that says nothing is none that did
}

// Two groups: those that wait where `at` does, and the rest, which ended or wait elsewhere.
[[noreturn]] static void fail_divergent(const char *kind, const Fiber &at) {
    int line = at.line, waiting = 0, listed = 0, n = block_size();
    char others[512] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        const Fiber &f = fibers[i];
        if (same_call(f, at)) {
            waiting++;
        } else if (listed < 4) {
            used += snprintf(others + used, sizeof others - used, "%s[%u,%u,%u,%d]",
                             listed++ ? "," : "", f.index.x, f.index.y, f.index.z,
                             f.state == DONE ? 0 : f.line);
        }
    }
    fail("\"error\":\"%s\",\"line\":%d,\"threads\":%d,\"waiting\":%d,\"block\":[%u,%u,%u],"
         "\"others\":[%s]", kind, line, n, waiting, blockIdx.x, blockIdx.y, blockIdx.z, others);
}

// Nobody can run: all wait at one barrier (open it), or the block is stuck.
static void open_barrier() {
    int n = block_size(), first = 0, operation = 0, count = 0;
    for (int i = 0; i < n; i++)
        if (fibers[i].state == AT_WARP) fail_divergent("warp", fibers[i]);
    while (fibers[first].state != AT_BARRIER) first++;
    for (int i = 0; i < n; i++) {
        if (!same_call(fibers[i], fibers[first])) fail_divergent("barrier", fibers[first]);
        count += fibers[i].value != 0;
        operation = fibers[i].operation;
    }
    for (int i = 0; i < n; i++) {
        fibers[i].result = operation == 0 ? count : operation == 1 ? count == n : count > 0;
        fibers[i].state = READY;
    }
    barrier_epoch++;
    for (uint64_t &moment : moments) moment = ++last_moment;
    if (launch.check) order_meet(0, n, 0, true);
}

// The lanes that have come to one __activemask() since any of them waits there.
static void find_active(int first, int line) {
    unsigned long long active = 0;
    for (int i = first; i < first + 32 && i < block_size(); i++)
        if (fibers[i].state == AT_ACTIVE && fibers[i].line == line) active |= 1ull << (i - first);
    for (int i = first; i < first + 32 && i < block_size(); i++)
        if (active >> (i - first) & 1) {
            fibers[i].result = active;
            fibers[i].state = READY;
        }
}

unsigned cuda_active_mask(int line) {
    Fiber *fiber = current;
    fiber->line = line;
    fiber->state = AT_ACTIVE;
    to_scheduler(fiber);
    return (unsigned)fiber->result;
}

static void run_block() {
    int n = block_size();
    free_count = 0;
    for (int i = n - 1; i >= 0; i--) free_stacks[free_count++] = i;
    for (int i = 0; i < n; i++) {
        Fiber &f = fibers[i];
        f.stack = -1;
        f.state = READY;
        f.next_site = -1;
        f.index = {i % launch.block.x, i / launch.block.x % launch.block.y,
                   i / (launch.block.x * launch.block.y)};
    }
    for (;;) {
        bool ran = false, alive = false;
        for (int i = 0; i < n; i++)
            if (fibers[i].state == READY) {
                resume(&fibers[i], i);
                ran = true;
            }
        for (int i = 0; i < n; i++) {
            alive |= fibers[i].state != DONE;
            if (fibers[i].state == AT_ACTIVE) find_active(i & ~31, fibers[i].line);
        }
        if (!alive) return;
        if (!ran) open_barrier();
    }
}

int cuda_barrier_reduce(int line, int operation, int predicate) {
    Fiber *fiber = current;
    arrive(fiber, line);
    fiber->operation = operation;
    fiber->value = predicate != 0;
    fiber->state = AT_BARRIER;
    to_scheduler(fiber);
    return (int)fiber->result;
}
void cuda_barrier(int line) { cuda_barrier_reduce(line, 0, 0); }

// The operations of cuda_on_cpu.h, in its order.
enum { WAIT, SHUFFLE, UP, DOWN, XOR, BALLOT, MATCH, ADD, MINIMUM, MAXIMUM, SIGNED_MINIMUM,
       SIGNED_MAXIMUM, AND, OR, EXCLUSIVE_OR };

static unsigned reduced(int operation, unsigned a, unsigned b) {
    switch (operation) {
    case ADD: return a + b;
    case MINIMUM: return a < b ? a : b;
    case MAXIMUM: return a > b ? a : b;
    case SIGNED_MINIMUM: return (int)a < (int)b ? a : b;
    case SIGNED_MAXIMUM: return (int)a > (int)b ? a : b;
    case AND: return a & b;
    case OR: return a | b;
    default: return a ^ b;
    }
}

// What a shuffle from a lane that takes no part gives, which CUDA leaves open: nothing that could
// pass for a result. A NaN as half, float and double, and a huge integer.
constexpr unsigned long long FROM_NOBODY = 0x7fff7fff7fff7fff;

static void finish_warp(Fiber *warp, int lanes, unsigned mask) {
    auto takes_part = [&](int i) { return (mask >> i & 1) && warp[i].state == AT_WARP; };
    unsigned long long ballot = 0;
    for (int i = 0; i < lanes; i++)
        if (takes_part(i) && warp[i].value) ballot |= 1ull << i;
    for (int i = 0; i < lanes; i++) {
        Fiber &f = warp[i];
        if (!takes_part(i)) continue;
        int width = f.width > 0 ? f.width : 32, first = i - i % width, source = i;
        int by = f.lane & 31;  // five bits: all that shfl.sync takes of an offset
        if (f.operation == SHUFFLE) source = first + ((f.lane % width) + width) % width;
        if (f.operation == UP) source = i - by >= first ? i - by : i;
        if (f.operation == DOWN) source = i + by < first + width ? i + by : i;
        if (f.operation == XOR) source = (i ^ by) < first + width ? i ^ by : i;
        bool there = source >= 0 && source < lanes && takes_part(source);
        f.result = there ? warp[source].value : FROM_NOBODY;
        if (f.operation == WAIT) f.result = 0;
        if (f.operation == BALLOT) f.result = ballot;
        if (f.operation == MATCH) f.result = 0;
        for (int j = 0; j < lanes; j++) {
            if (!takes_part(j)) continue;
            if (f.operation == MATCH) f.result |= 1ull << (32 + j);  // above: who takes part
            if (f.operation == MATCH && warp[j].value == f.value) f.result |= 1ull << j;
            if (f.operation >= ADD && j != i)
                f.result = reduced(f.operation, (unsigned)f.result, (unsigned)warp[j].value);
        }
    }
    if (launch.check) order_meet((int)(warp - fibers), lanes, mask, false);
    for (int i = 0; i < lanes; i++)
        if (takes_part(i)) warp[i].state = READY;
}

unsigned long long cuda_warp_exchange(int line, unsigned mask, int operation,
                                      unsigned long long value, int lane, int width) {
    Fiber *fiber = current;
    int me = fiber - fibers, first = me & ~31, n = block_size();
    int lanes = n - first < 32 ? n - first : 32;
    arrive(fiber, line);
    fiber->mask = mask;
    fiber->operation = operation;
    fiber->value = value;
    fiber->lane = lane;
    fiber->width = width;
    fiber->state = AT_WARP;
    bool complete = mask >> (me - first) & 1;  // a lane must name itself
    for (int i = 0; i < lanes; i++)
        if (mask >> i & 1)
            complete &= same_call(fibers[first + i], *fiber);
    if (complete) {
        finish_warp(fibers + first, lanes, mask);
        warp_epochs[first / 32]++;
        moments[1 + first / 32] = ++last_moment;
    } else {
        to_scheduler(fiber);
    }
    return fiber->result;
}

static std::atomic<uint64_t> next_block;

// Stacks begin at a multiple of eight pages: their shadow (guard.cpp) then begins at a page.
constexpr size_t STACKS_BEGIN = 32 * 1024;
static thread_local void *stacks_mapping;

static void prepare_stacks() {
    stacks_mapping = mmap(nullptr, STACKS_BYTES + STACKS_BEGIN, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks_mapping == MAP_FAILED)
        fail("\"error\":\"internal\",\"what\":\"no memory for stacks\"");
    stacks = (char *)(((uintptr_t)stacks_mapping + STACKS_BEGIN - 1) & ~(STACKS_BEGIN - 1));
    if (cuda_guards_locals) guard_begin(stacks);
    for (int i = 0, n = block_size(); i < n; i++)
        mprotect(stacks + i * STACK_BYTES, 4096, PROT_NONE);
    stacks_begin = (uintptr_t)stacks;
    fibers = (Fiber *)calloc(MAX_THREADS, sizeof(Fiber));
}

struct Worker {          // one thread of the operating system, as the clock sees it
    pthread_t thread;
    std::atomic<uint64_t> *switches;
    uint64_t last;       // switches at the tick before
};
static Worker workers[256];
static std::mutex mutex;
static std::condition_variable ended;
static int running;

constexpr size_t SIGNAL_STACK = 64 * 1024;  // a stack that overflowed cannot report itself
static thread_local char signal_memory[SIGNAL_STACK];

static void *run_blocks(void *argument) {
    prepare_stacks();
    stack_t signal_stack = {};
    signal_stack.ss_sp = signal_memory;
    signal_stack.ss_size = SIGNAL_STACK;
    sigaltstack(&signal_stack, nullptr);
    if (launch.check) recorder_thread_begin();
    {
        std::lock_guard<std::mutex> guard(mutex);
        ((Worker *)argument)->switches = &switches;
    }
    uint64_t total = (uint64_t)launch.grid.x * launch.grid.y * launch.grid.z;
    for (uint64_t b; (b = next_block.fetch_add(1)) < total;) {
        blockIdx = {(unsigned)(b % launch.grid.x), (unsigned)(b / launch.grid.x % launch.grid.y),
                    (unsigned)(b / launch.grid.x / launch.grid.y)};
        block_serial = b + 1;
        barrier_epoch = 0;
        memset(warp_epochs, 0, sizeof warp_epochs);
        last_moment = block_serial << 32;  // no other block of the launch has the same
        for (uint64_t &moment : moments) moment = ++last_moment;
        if (launch.check) recorder_block_begin();
        run_block();
        if (launch.check) recorder_block_end();
        if (launch.ways) paths_block_end();
    }
    if (launch.check) recorder_thread_end();
    signal_stack.ss_flags = SS_DISABLE;
    sigaltstack(&signal_stack, nullptr);
    if (cuda_guards_locals) guard_end(stacks);
    munmap(stacks_mapping, STACKS_BYTES + STACKS_BEGIN);
    free(fibers);
    std::lock_guard<std::mutex> guard(mutex);
    ((Worker *)argument)->switches = nullptr;
    running--;
    ended.notify_all();
    return nullptr;
}

// The clock: a thread of the block that has run since the last tick may be waiting for another one.
// The signal makes it give way, if it is in the kernel's own code (see worker.cpp).
static void tick() {
    for (int i = 0; i < launch.threads; i++) {
        if (!workers[i].switches) continue;
        uint64_t seen = *workers[i].switches;
        if (seen == workers[i].last) pthread_kill(workers[i].thread, SIGURG);
        workers[i].last = seen;
    }
}

void run_grid() {
    gridDim = launch.grid;
    blockDim = launch.block;
    next_block = 0;
    running = launch.threads;
    // Always on threads of their own: fresh thread-local memory, and the main thread is left to
    // ignore the alarm, so that the time limit is reported from inside the kernel.
    for (int i = 0; i < launch.threads; i++) {
        workers[i] = {};
        if (pthread_create(&workers[i].thread, nullptr, run_blocks, &workers[i]))
            fail("\"error\":\"internal\",\"what\":\"pthread_create failed\"");
    }
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, nullptr);  // after the threads began: theirs stays open
    {
        std::unique_lock<std::mutex> guard(mutex);
        while (running)
            if (ended.wait_for(guard, std::chrono::milliseconds(2)) == std::cv_status::timeout &&
                !launch.check)  // the recorder sees who waits, at the same place in each run
                tick();
    }
    for (int i = 0; i < launch.threads; i++) pthread_join(workers[i].thread, nullptr);
    pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
}
