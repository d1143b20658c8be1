// Reads requests from standard input, line by line, under the names that protocol.py gives them.
#include "runtime.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Generated after the kernel's source (see compiler.py).
struct Kernel { const char *name; void (*run)(void **); };
struct Constant { const char *name; void *address; size_t bytes; };
extern Kernel cuda_kernels[];
extern Constant cuda_constants[];

// Named here so that the symbol table has them: symbols.py tells constants from other variables.
extern char __start_cuda_constant __attribute__((weak)), __stop_cuda_constant __attribute__((weak));
__attribute__((used)) static char *constants[] = {&__start_cuda_constant, &__stop_cuda_constant};

constexpr size_t GUARD = 1ull << 30;  // bytes of nothing before and after each array
constexpr int MAX_ARGUMENTS = 64;

static Array &next_array() {
    if (launch.array_count == MAX_ARRAYS)
        fail("\"error\":\"internal\",\"what\":\"more than %d arrays\"", MAX_ARRAYS);
    return launch.arrays[launch.array_count++];
}

static void expect(bool fine) {
    if (!fine) fail("\"error\":\"internal\",\"what\":\"a request that protocol.py does not have\"");
}
static unsigned long long number() {
    unsigned long long value = 0;
    expect(scanf("%llu", &value) == 1);
    return value;
}
static long long signed_number() {
    long long value = 0;
    expect(scanf("%lld", &value) == 1);
    return value;
}
static uint3 triple() {
    uint3 value;
    value.x = number();
    value.y = number();
    value.z = number();
    return value;
}
template <size_t N> static void name(char (&text)[N]) {
    static_assert(N > 63, "names are up to 63 letters long");
    expect(scanf("%63s", text) == 1);
}
template <size_t N> static void path(char (&text)[N]) {
    static_assert(N > 1023, "paths are up to 1023 letters long");
    expect(scanf(" %1023[^\n]", text) == 1);
}
static void hexadecimal(void *target, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte;
        expect(scanf("%2x", &byte) == 1);
        ((unsigned char *)target)[i] = byte;
    }
}

static void set_constant() {
    char wanted[64];
    name(wanted);
    size_t bytes = number();
    for (Constant *c = cuda_constants; c->name; c++)
        if (!strcmp(c->name, wanted)) return hexadecimal(c->address, bytes);
    fail("\"error\":\"internal\",\"what\":\"no constant %s\"", wanted);
}

static void choose_kernel() {
    char wanted[64];
    name(wanted);
    for (Kernel *k = cuda_kernels; k->name; k++)
        if (!strcmp(k->name, wanted)) launch.kernel = k->run;
    if (!launch.kernel) fail("\"error\":\"internal\",\"what\":\"no kernel %s\"", wanted);
}

static void map_region(int file) {
    Array &region = next_array();
    launch.region_count++;
    size_t offset = number(), page = 4096;
    region.bytes = number();
    region.itemsize = number();
    region.writable = number();
    name(region.name);
    size_t whole = region.bytes ? (region.bytes + page - 1) / page * page : page;
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

static void add_shared_array() {
    Array &array = next_array();
    array.space = SHARED;
    array.writable = true;
    array.begin = signed_number();
    array.bytes = number();
    name(array.name);
}

static void add_variable(Space space) {
    Array &array = next_array();
    array.space = space;
    array.begin = number();
    array.bytes = number();
    array.writable = number();
    name(array.name);
}

// Returns false where the requests end. Between two launches come constants only.
bool read_launch() {
    alignas(16) static char values[8192];  // CUDA allows 4096 bytes
    static void *arguments[MAX_ARGUMENTS];
    static char events[1024], ways[1024];
    char line[16], memory[1024];
    int count = 0, file = -1;
    size_t used = 0;
    launch = Launch{};
    launch.arguments = arguments;
    while (scanf("%15s", line) == 1) {
        auto is = [&](const char *known) { return !strcmp(line, known); };
        auto argument = [&](size_t bytes) {  // room for the next one
            expect(count < MAX_ARGUMENTS && bytes <= 4096 && used + bytes <= sizeof values);
            char *place = values + used;
            used += (bytes + 15) / 16 * 16;
            return arguments[count++] = place;
        };
        if (is("constant")) set_constant();
        else if (is("kernel")) choose_kernel();
        else if (is("grid")) launch.grid = triple();
        else if (is("block")) launch.block = triple();
        else if (is("shared")) launch.dynamic_shared = number();
        else if (is("threads")) launch.threads = (int)number();
        else if (is("timeout")) launch.milliseconds = (long)number();
        else if (is("memory")) {
            path(memory);
            file = open(memory, O_RDWR);
            if (file < 0) fail("\"error\":\"internal\",\"what\":\"cannot open shared memory\"");
        } else if (is("region")) map_region(file);
        else if (is("pointer")) {
            uintptr_t address = launch.arrays[number()].begin;
            address += number();
            memcpy(argument(sizeof address), &address, sizeof address);
        } else if (is("value")) {
            size_t bytes = number();
            hexadecimal(argument(bytes), bytes);
        } else if (is("check")) {
            launch.check = true;
            launch.granule = (int)number();
        } else if (is("array")) add_shared_array();
        else if (is("variable")) add_variable(GLOBAL);
        else if (is("fixed")) add_variable(CONSTANT);
        else if (is("record")) {
            launch.event_limit = number();
            path(events);
            launch.events = events;
        } else if (is("paths")) {
            launch.way_limit = number();
            path(ways);
            launch.ways = ways;
        } else if (is("only")) {
            launch.every_block = false;
            launch.kept_blocks.push_back(number());
        } else {
            expect(is("run"));
            close(file);
            return true;
        }
    }
    return false;
}
