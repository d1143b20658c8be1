// The worker process: reads launches from a pipe, runs them over shared memory, answers in JSON.
//
// A compiled module *is* this program: an endless loop or a wild write ends it, and nothing else.
#include "runtime.h"

#include <atomic>
#include <fcntl.h>
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

// Generated after the kernel's source (see compiler.py).
struct Kernel { const char *name; void (*run)(void **); };
struct Constant { const char *name; void *address; size_t bytes; };
extern Kernel cuda_kernels[];
extern Constant cuda_constants[];
extern thread_local uint3 threadIdx, blockIdx;

uint64_t *recorded_blocks = nullptr;
int recorded_block_count = 0;

static int answer_pipe;
constexpr size_t GUARD = 1ull << 30;  // bytes of nothing before and after each array

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

static void on_fault(int signal, siginfo_t *info, void *context) {
    char place[256];
    describe_place(place, sizeof place, program_counter(context));
    uintptr_t address = (uintptr_t)info->si_addr;
    if (signal == SIGFPE) fail("\"error\":\"division\",%s", place);
    if (signal == SIGALRM) fail("\"error\":\"timeout\",%s", place);
    if (current && address - stacks_begin < STACKS_BYTES)
        fail("\"error\":\"stack\",%s", place);
    for (int r = 0; r < launch.region_count; r++) {
        const Region &region = launch.regions[r];
        if (address - (uintptr_t)region.mapping < region.mapped)
            fail("\"error\":\"memory\",\"array\":\"%s\",\"offset\":%lld,\"size\":%zu,\"bytes\":%zu,%s",
                 region.name, (long long)(address - region.begin), region.itemsize, region.bytes,
                 place);
    }
    fail("\"error\":\"memory\",\"array\":\"\",\"offset\":%llu,\"size\":0,\"bytes\":0,%s",
         (unsigned long long)address, place);
}

static void map_region(Region &region, int file, size_t offset) {
    size_t page = 4096, whole = (region.bytes + page - 1) / page * page;
    if (!whole) whole = page;
    region.mapped = whole + 2 * GUARD;
    region.mapping = (char *)mmap(nullptr, region.mapped, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region.mapping == MAP_FAILED)
        fail("\"error\":\"internal\",\"what\":\"no address space for array %s\"", region.name);
    void *data = mmap(region.mapping + GUARD, whole, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, file, offset);
    if (data == MAP_FAILED)
        fail("\"error\":\"internal\",\"what\":\"cannot map array %s\"", region.name);
    region.begin = (uintptr_t)data;
}

static unsigned long long number() {
    unsigned long long value = 0;
    if (scanf("%llu", &value) != 1) exit(0);
    return value;
}
static void hexadecimal(void *target, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte;
        if (scanf("%2x", &byte) != 1) exit(0);
        ((unsigned char *)target)[i] = byte;
    }
}

static void set_constant() {
    char name[128];
    if (scanf("%127s", name) != 1) exit(0);
    size_t bytes = number();
    for (Constant *c = cuda_constants; c->name; c++)
        if (!strcmp(c->name, name)) {
            hexadecimal(c->address, bytes);
            return;
        }
    fail("\"error\":\"internal\",\"what\":\"no constant %s\"", name);
}

static void set_alarm(long milliseconds) {
    itimerval timer = {};
    timer.it_value.tv_sec = milliseconds / 1000;
    timer.it_value.tv_usec = milliseconds % 1000 * 1000;
    setitimer(ITIMER_REAL, &timer, nullptr);
}

static void run_launch(char *answer, size_t answer_size) {
    char path[1024], events[1024], name[128];
    static uint64_t values[64];
    static void *arguments[64];
    launch = Launch{};
    if (scanf("%127s", name) != 1) exit(0);
    for (Kernel *k = cuda_kernels; k->name; k++)
        if (!strcmp(k->name, name)) launch.kernel = k->run;
    if (!launch.kernel) fail("\"error\":\"internal\",\"what\":\"no kernel %s\"", name);
    for (unsigned *d : {&launch.grid.x, &launch.grid.y, &launch.grid.z, &launch.block.x,
                        &launch.block.y, &launch.block.z})
        *d = (unsigned)number();
    launch.dynamic_shared = number();
    launch.threads = (int)number();
    launch.check = number();
    launch.record = number();
    launch.granule = (int)number();
    long limit = (long)number();
    launch.event_limit = number();
    recorded_block_count = (int)number() - 1;  // 0: every block
    free(recorded_blocks);
    recorded_blocks = (uint64_t *)calloc(recorded_block_count + 2, sizeof *recorded_blocks);
    for (int i = 0; i < recorded_block_count; i++) recorded_blocks[i] = number();
    if (scanf("%1023s %1023s", path, events) != 2) exit(0);
    int file = open(path, O_RDWR);
    if (file < 0) fail("\"error\":\"internal\",\"what\":\"cannot open shared memory\"");
    launch.region_count = (int)number();
    for (int r = 0; r < launch.region_count; r++) {
        Region &region = launch.regions[r];
        size_t offset = number();
        region.bytes = number();
        region.itemsize = number();
        region.writable = number();
        if (scanf("%63s", region.name) != 1) exit(0);
        map_region(region, file, offset);
    }
    close(file);
    launch.shared_count = (int)number();
    for (int s = 0; s < launch.shared_count; s++) {
        long long offset;
        if (scanf("%lld", &offset) != 1) exit(0);
        launch.shared[s].offset = offset;
        launch.shared[s].bytes = number();
        if (scanf("%63s", launch.shared[s].name) != 1) exit(0);
    }
    int count = (int)number();
    for (int a = 0; a < count; a++) {
        char what[8];
        if (scanf("%7s", what) != 1) exit(0);
        values[a] = 0;
        if (*what == 'p') {
            int region = (int)number();
            values[a] = launch.regions[region].begin + number();
        } else {
            hexadecimal(&values[a], number());
        }
        arguments[a] = &values[a];
    }
    launch.arguments = arguments;
    if (launch.check) recorder_begin(events);
    timespec begin, end;
    set_alarm(limit);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run_grid();
    clock_gettime(CLOCK_MONOTONIC, &end);
    set_alarm(0);
    fflush(stdout);
    int used = snprintf(answer, answer_size, "{\"seconds\":%.9f",
                        end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec));
    if (launch.check) recorder_end(answer + used, answer_size - used);
    for (int r = 0; r < launch.region_count; r++)
        munmap(launch.regions[r].mapping, launch.regions[r].mapped);
}

int main(int argc, char **argv) {
    answer_pipe = argc > 1 ? atoi(argv[1]) : 1;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) sigaction(signal, &action, nullptr);
    constexpr size_t ANSWER = 1 << 22;
    char *answer = (char *)malloc(ANSWER), command[16];
    while (scanf("%15s", command) == 1) {
        if (!strcmp(command, "constant")) set_constant();
        if (strcmp(command, "launch")) continue;
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
