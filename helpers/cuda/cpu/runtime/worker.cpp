// The worker process: runs launches over shared memory, one after another, and answers in JSON.
//
// A compiled module *is* this program: an endless loop or a wild write ends it, and nothing else.
// What it is asked and answers is listed in protocol.py.
#include "runtime.h"

#include <atomic>
#include <initializer_list>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern thread_local uint3 threadIdx, blockIdx;

static int answer_pipe;

void fail(const char *format, ...) {
    static std::atomic<bool> failed;
    if (failed.exchange(true)) for (;;) pause();  // another thread is reporting: it ends us all
    char text[4096];
    int used = snprintf(text, sizeof text, "{");
    va_list values;
    va_start(values, format);
    used += vsnprintf(text + used, sizeof text - used - 3, format, values);
    va_end(values);
    used += snprintf(text + used, sizeof text - used, "}\n");
    if (write(answer_pipe, text, used) != used) _exit(2);
    fflush(stdout);
    _exit(1);
}

void describe_place(char *text, size_t size, void *pc) {
    snprintf(text, size, "\"running\":%s,\"block\":[%u,%u,%u],\"thread\":[%u,%u,%u],\"pc\":%llu",
             current ? "true" : "false", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
             threadIdx.y, threadIdx.z, (unsigned long long)pc);
}

void cuda_assert_failed(const char *expression, int line) {
    char place[256], escaped[512];
    describe_place(place, sizeof place, nullptr);
    size_t n = 0;
    for (const char *c = expression; *c && n + 3 < sizeof escaped; c++) {
        if (*c == '"' || *c == '\\') escaped[n++] = '\\';
        escaped[n++] = *c;
    }
    escaped[n] = 0;
    fail("\"error\":\"assert\",\"what\":\"%s\",\"line\":%d,%s", escaped, line, place);
}

static void *program_counter(void *context) {
    ucontext_t *u = (ucontext_t *)context;
#if defined(__x86_64__) && defined(__linux__)
    return (void *)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__) && defined(__linux__)
    return (void *)u->uc_mcontext.pc;
#else
    (void)u;
    return nullptr;
#endif
}

static void set_alarm(long milliseconds) {
    itimerval timer = {};
    timer.it_value.tv_sec = milliseconds / 1000;
    timer.it_value.tv_usec = milliseconds % 1000 * 1000;
    setitimer(ITIMER_REAL, &timer, nullptr);
}

extern char __start_cuda_code, __stop_cuda_code;  // the kernels' own code (see assembly.py)

// Runs on the stack of the thread that it interrupts, and returns when that thread's turn comes.
static void on_tick(int, siginfo_t *, void *context) {
    char *at = (char *)program_counter(context);
    if (current && at >= &__start_cuda_code && at < &__stop_cuda_code) give_way();
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    char place[256];
    describe_place(place, sizeof place, program_counter(context));
    uintptr_t address = (uintptr_t)info->si_addr;
    if (signal == SIGFPE) fail("\"error\":\"division\",%s", place);
    static int tries = 0;
    if (signal == SIGALRM && !launch.check && tries++ < 200) {  // says more from the kernel's code
        char *at = (char *)program_counter(context);
        if (!current || at < &__start_cuda_code || at >= &__stop_cuda_code) return set_alarm(1);
    }
    if (signal == SIGALRM) fail("\"error\":\"timeout\",%s", place);
    if (current && address - stacks_begin < STACKS_BYTES)
        fail("\"error\":\"stack\",%s", place);
    for (int r = 0; r < launch.region_count; r++) {
        const Array &region = launch.arrays[r];
        if (address - (uintptr_t)region.mapping < region.mapped)
            fail("\"error\":\"memory\",\"array\":\"%s\",\"offset\":%lld,\"size\":%zu,\"bytes\":%zu,%s",
                 region.name, (long long)(address - region.begin), region.itemsize, region.bytes,
                 place);
    }
    fail("\"error\":\"memory\",\"array\":\"\",\"offset\":%llu,\"size\":0,\"bytes\":0,%s",
         (unsigned long long)address, place);
}

static void run_launch(char *answer, size_t answer_size) {
    if (launch.check) recorder_begin();
    if (launch.ways) paths_begin();
    timespec begin, end;
    set_alarm(launch.milliseconds);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run_grid();
    clock_gettime(CLOCK_MONOTONIC, &end);
    set_alarm(0);
    fflush(stdout);
    size_t used = snprintf(answer, answer_size, "{\"seconds\":%.9f",
                        end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec));
    if (launch.ways) used += paths_end(answer + used, answer_size - used);
    if (launch.check) recorder_end(answer + used, answer_size - used);
    for (int r = 0; r < launch.region_count; r++)
        munmap(launch.arrays[r].mapping, launch.arrays[r].mapped);
}

int main(int argc, char **argv) {
    answer_pipe = argc > 1 ? atoi(argv[1]) : 1;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) sigaction(signal, &action, nullptr);
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
    sigaction(SIGURG, &action, nullptr);
    constexpr size_t ANSWER = 1 << 22;
    char *answer = (char *)malloc(ANSWER);
    while (read_launch()) {
        run_launch(answer, ANSWER);
        size_t length = strlen(answer);
        answer[length++] = '}';
        answer[length++] = '\n';
        for (size_t sent = 0; sent < length;) {
            ssize_t n = write(answer_pipe, answer + sent, length - sent);
            if (n <= 0) return 1;
            sent += n;
        }
    }
    return 0;
}
