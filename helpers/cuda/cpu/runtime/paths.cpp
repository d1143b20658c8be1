// Notes the way of each thread through the code, in a program compiled with
// -fsanitize-coverage=trace-pc: the compiler then calls __sanitizer_cov_trace_pc() where a piece of
// code begins that has no jump in it and none into it. warps.py makes warps of these ways.
//
// Such a launch runs on one thread of the operating system.
#include "runtime.h"

#include <stdio.h>

static std::vector<uint32_t> ways[MAX_THREADS];  // of the running block: addresses below 4 GiB
static uint64_t noted;
static FILE *file;

extern "C" void __sanitizer_cov_trace_pc() {
    if (!current || !file || noted > launch.way_limit) return;
    noted++;  // one more than the limit says that there were more
    ways[current_thread].push_back((uint32_t)(uintptr_t)__builtin_return_address(0) - 1);
}

void paths_begin() {
    noted = 0;
    file = fopen(launch.ways, "wb");
    if (!file) fail("\"error\":\"internal\",\"what\":\"cannot write the ways\"");
}

// Of each thread: its block, its number there, how many pieces follow; then these.
void paths_block_end() {
    for (uint32_t t = 0; t < launch.block.x * launch.block.y * launch.block.z; t++) {
        uint32_t head[] = {(uint32_t)(block_serial - 1), t, (uint32_t)ways[t].size()};
        size_t wrote = fwrite(head, sizeof head, 1, file);
        wrote += fwrite(ways[t].data(), sizeof(uint32_t), ways[t].size(), file);
        if (wrote != 1 + ways[t].size())
            fail("\"error\":\"internal\",\"what\":\"cannot write the ways\"");
        ways[t].clear();
    }
}

int paths_end(char *answer, size_t size) {
    fclose(file);
    file = nullptr;
    return snprintf(answer, size, ",\"pieces\":%llu", (unsigned long long)noted);
}
