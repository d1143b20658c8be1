// Receives every access of a kernel compiled with -fsanitize=thread, in place of TSan's runtime.
//
// The compiler calls __tsan_readN / __tsan_writeN before each access; the return address tells the
// line. Each access is checked (in bounds? written before? racing?) and counted per instruction.
#include "costs.h"
#include "runtime.h"

#include <deque>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

extern "C" {
extern char __executable_start, _end;
extern char __start_cuda_constant __attribute__((weak));
extern char __stop_cuda_constant __attribute__((weak));
}
extern thread_local uint3 threadIdx, blockIdx;

namespace {

enum Space { GLOBAL = 0, SHARED = 1, CONSTANT = 2 };

struct Touch {           // who touched a cell: nobody while block is 0
    uint32_t block, pc;  // linked at a fixed address, so 32 bits hold it
    uint16_t epoch, warp_epoch, thread;
    uint8_t kind;
};
struct Cell { Touch writer, reader, other_reader; };

struct Instruction {
    uint64_t key;        // pc, array and kind
    uint16_t id;
    uintptr_t pc;
    int array;
    uint8_t kind, size, space;
    uint64_t accesses = 0, requests = 0, sectors = 0, wavefronts = 0, ideal = 0, worst = 0;
    uint64_t counted_block = 0;
    std::vector<uint32_t> occurrences;  // per thread of the running block
    std::vector<Group> groups;          // [occurrence * warps + warp]
    size_t used = 0;
};

struct Event {
    uint32_t block, occurrence, epoch;
    uint16_t thread, instruction;
    int64_t offset;      // bytes from the array's first element
};
static_assert(sizeof(Event) == 24, "read by record.py");

std::deque<Instruction> *instructions;  // which leaves them where they are as it grows
std::unordered_map<uint64_t, Instruction *> *index_of;
struct { uint64_t key; Instruction *found; } recent[256];
unsigned block_threads, block_warps;
Cell *global_cells[64];
Cell *shared_cells;
int shift;                // of an offset to its cell's number: granules are 1 or 4 bytes
FILE *event_file;
uint64_t event_count;
bool keep_events;

Touch touch_now(Kind kind, void *pc) {
    unsigned t = current_thread;
    return {(uint32_t)block_serial, (uint32_t)(uintptr_t)pc, (uint16_t)barrier_epoch,
            (uint16_t)warp_epochs[t / 32], (uint16_t)t, (uint8_t)kind};
}

bool same_thread(const Touch &a, const Touch &b) {
    return a.block == b.block && a.thread == b.thread;
}

// Ordered: the same thread, a barrier between, or (within a warp) a warp-level one.
bool races(const Touch &before, const Touch &now) {
    if (!before.block || same_thread(before, now)) return false;
    if (before.kind == ATOMIC && now.kind == ATOMIC) return false;
    if (before.block != now.block) return true;
    if (before.epoch != now.epoch) return false;
    return before.thread / 32 != now.thread / 32 || before.warp_epoch == now.warp_epoch;
}

void thread_json(char *text, size_t size, const Touch &touch) {
    uint32_t b = touch.block - 1, t = touch.thread;
    snprintf(text, size,
             "{\"block\":[%u,%u,%u],\"thread\":[%u,%u,%u],\"kind\":%d,\"pc\":%llu}",
             b % launch.grid.x, b / launch.grid.x % launch.grid.y,
             b / launch.grid.x / launch.grid.y, t % launch.block.x,
             t / launch.block.x % launch.block.y, t / (launch.block.x * launch.block.y),
             touch.kind, (unsigned long long)touch.pc);
}

[[noreturn]] void report(const char *error, Space space, const char *array, int64_t offset,
                         unsigned size, size_t bytes, const Touch &now, const Touch *before) {
    char here[256], there[256] = "null";
    thread_json(here, sizeof here, now);
    if (before) thread_json(there, sizeof there, *before);
    fail("\"error\":\"%s\",\"space\":%d,\"array\":\"%s\",\"offset\":%lld,\"size\":%u,\"bytes\":%zu,"
         "\"now\":%s,\"before\":%s", error, space, array, (long long)offset, size, bytes, here, there);
}

size_t first_cell(int64_t offset) { return (size_t)offset >> shift; }

size_t cells_bytes(const Region &region) {
    return (first_cell(region.bytes) + 1) * sizeof(Cell);
}

void check_cell(Cell &cell, const Touch &now, Space space, const char *array, int64_t offset,
                unsigned size, size_t bytes) {
    bool reads = now.kind != WRITE, writes = now.kind != READ;
    if (space == SHARED && cell.writer.block != now.block) {
        if (reads) report("uninitialised", space, array, offset, size, bytes, now, nullptr);
        cell = Cell{};  // what an earlier block left here is not this block's
    }
    if (races(cell.writer, now))
        report("race", space, array, offset, size, bytes, now, &cell.writer);
    if (writes) {
        for (const Touch *reader : {&cell.reader, &cell.other_reader})
            if (races(*reader, now)) report("race", space, array, offset, size, bytes, now, reader);
        cell.writer = now;
    }
    if (now.kind == READ) {
        if (cell.reader.block && !same_thread(cell.reader, now)) cell.other_reader = cell.reader;
        cell.reader = now;
    }
}

Instruction &instruction_of(uintptr_t pc, int array, Kind kind, unsigned size, Space space) {
    uint64_t key = ((uint64_t)pc * 64 + array) * 4 + kind;
    auto &slot = recent[(pc ^ pc >> 8) & 255];
    if (slot.key == key) return *slot.found;
    Instruction *&found = (*index_of)[key];
    if (!found) {
        instructions->emplace_back();
        found = &instructions->back();
        found->key = key;
        found->id = (uint16_t)(instructions->size() - 1);
        found->pc = pc;
        found->array = array;
        found->kind = kind;
        found->size = size;
        found->space = space;
    }
    slot = {key, found};
    return *found;
}

void count(uintptr_t address, unsigned size, Kind kind, Space space, int array, int64_t offset,
           void *pc) {
    Instruction &ins = instruction_of((uintptr_t)pc, array, kind, size, space);
    unsigned t = current_thread;
    if (ins.counted_block != block_serial) {
        ins.counted_block = block_serial;
        ins.occurrences.assign(block_threads, 0);
        ins.used = 0;
    }
    uint32_t occurrence = ins.occurrences[t]++;
    size_t slot = (size_t)occurrence * block_warps + t / 32;
    if (slot >= ins.groups.size()) ins.groups.resize(slot + block_warps, Group{});
    Group &group = ins.groups[slot];
    if (group.block != (uint32_t)block_serial) group.block = block_serial, group.mask = 0;
    group.mask |= 1u << (t % 32);
    group.address[t % 32] = (uint32_t)address;
    if (slot >= ins.used) ins.used = slot + 1;
    ins.accesses++;
    if (keep_events && event_count < launch.event_limit) {
        Event event = {(uint32_t)(block_serial - 1), occurrence, barrier_epoch, (uint16_t)t,
                       ins.id, offset};
        fwrite(&event, sizeof event, 1, event_file);
        event_count++;
    }
}

}  // namespace

void record_access(const void *pointer, unsigned size, Kind kind, void *pc) {
    if (!current || !launch.check) return;
    uintptr_t address = (uintptr_t)pointer;
    if (address - stacks_begin < STACKS_BYTES)
        return;  // a thread's own variables
    if (address >= (uintptr_t)&__start_cuda_constant && address < (uintptr_t)&__stop_cuda_constant) {
        if (kind != READ) report("const", CONSTANT, "constant memory", 0, size, 0,
                                 touch_now(kind, pc), nullptr);
        if (launch.events)
            count(address, size, kind, CONSTANT, 63,
                  (int64_t)(address - (uintptr_t)&__start_cuda_constant), pc);
        return;
    }
    Touch now = touch_now(kind, pc);
    for (int r = 0; r < launch.region_count; r++) {
        const Region &region = launch.regions[r];
        if (address - (uintptr_t)region.mapping >= region.mapped) continue;
        int64_t offset = (int64_t)(address - region.begin);
        if (offset < 0 || (size_t)offset + size > region.bytes)
            report("bounds", GLOBAL, region.name, offset, size, region.bytes, now, nullptr);
        if (kind != READ && !region.writable)
            report("const", GLOBAL, region.name, offset, size, region.bytes, now, nullptr);
        for (size_t c = first_cell(offset), end = first_cell(offset + size - 1); c <= end; c++)
            check_cell(global_cells[r][c], now, GLOBAL, region.name, offset, size, region.bytes);
        if (launch.events) count(address, size, kind, GLOBAL, r, offset, pc);
        return;
    }
    ptrdiff_t from_anchor = (ptrdiff_t)(address - (uintptr_t)&cuda_tls_anchor);
    const Shared *nearest = nullptr;
    ptrdiff_t distance = 1 << 20;
    for (int s = 0; s < launch.shared_count; s++) {
        const Shared &shared = launch.shared[s];
        ptrdiff_t offset = from_anchor - shared.offset;
        if (offset >= 0 && (size_t)offset + size <= shared.bytes) {
            for (size_t c = first_cell(offset), end = first_cell(offset + size - 1); c <= end; c++)
                check_cell(shared_cells[shared.cells + c], now, SHARED, shared.name, offset, size,
                           shared.bytes);
            if (launch.events)
                count(address, size, kind, SHARED, launch.region_count + s, offset, pc);
            return;
        }
        ptrdiff_t away = offset < 0 ? -offset : offset - (ptrdiff_t)shared.bytes + 1;
        if (away < distance) distance = away, nearest = &shared;
    }
    if (pointer >= &threadIdx && pointer < &threadIdx + 1) return;
    if (pointer >= &blockIdx && pointer < &blockIdx + 1) return;
    if (nearest)
        report("bounds", SHARED, nearest->name, from_anchor - nearest->offset, size, nearest->bytes,
               now, nullptr);
    if (pointer >= &__executable_start && pointer < &_end) return;  // __device__ variables, tables
    report("wild", GLOBAL, "", (int64_t)address, size, 0, now, nullptr);
}

void recorder_begin() {
    instructions = new std::deque<Instruction>();
    index_of = new std::unordered_map<uint64_t, Instruction *>();
    memset(recent, 0, sizeof recent);
    block_threads = launch.block.x * launch.block.y * launch.block.z;
    block_warps = (block_threads + 31) / 32;
    shift = launch.granule == 4 ? 2 : 0;
    for (int r = 0; r < launch.region_count; r++) {  // pages that nobody touches cost nothing
        size_t bytes = cells_bytes(launch.regions[r]);
        void *cells = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (cells == MAP_FAILED) fail("\"error\":\"internal\",\"what\":\"no memory to record in\"");
#ifdef MADV_HUGEPAGE
        madvise(cells, bytes, MADV_HUGEPAGE);  // thousands of page faults fewer
#endif
        global_cells[r] = (Cell *)cells;
    }
    size_t cells = 1;
    for (int s = 0; s < launch.shared_count; s++) {
        launch.shared[s].cells = cells;
        cells += first_cell(launch.shared[s].bytes) + 1;
    }
    shared_cells = (Cell *)calloc(cells, sizeof(Cell));
    event_count = 0;
    event_file = launch.events ? fopen(launch.events, "wb") : nullptr;
}

void recorder_block_begin() {
    keep_events = event_file && launch.every_block;
    if (event_file)
        for (uint64_t kept : launch.kept_blocks) keep_events |= kept == block_serial - 1;
}

void recorder_block_end() {
    for (Instruction &ins : *instructions) {
        if (ins.counted_block != block_serial) continue;
        for (size_t g = 0; g < ins.used; g++) {
            const Group &group = ins.groups[g];
            if (group.block != (uint32_t)block_serial || !group.mask) continue;
            ins.requests++;
            if (ins.space == SHARED) {
                unsigned ideal, waves = count_wavefronts(group, ins.size, &ideal);
                ins.wavefronts += waves;
                ins.ideal += ideal;
                if (waves > ins.worst) ins.worst = waves;
            } else {
                unsigned sectors = count_sectors(group, ins.size);
                ins.sectors += sectors;
                if (sectors > ins.worst) ins.worst = sectors;
            }
        }
    }
}

void recorder_end(char *answer, size_t size) {
    size_t used = 0;
    auto add = [&](const char *format, auto... values) {
        if (used < size) used += snprintf(answer + used, size - used, format, values...);
    };
    add(",\"events\":%llu,\"instructions\":[", (unsigned long long)event_count);
    for (size_t i = 0; i < instructions->size(); i++) {
        const Instruction &s = (*instructions)[i];
        add("%s{\"pc\":%llu,\"array\":%d,\"kind\":%d,\"space\":%d,\"size\":%d,\"count\":%llu,"
            "\"requests\":%llu,\"sectors\":%llu,\"wavefronts\":%llu,\"ideal\":%llu,\"worst\":%llu}",
            i ? "," : "", (unsigned long long)s.pc, s.array, s.kind, s.space, s.size,
            (unsigned long long)s.accesses, (unsigned long long)s.requests,
            (unsigned long long)s.sectors, (unsigned long long)s.wavefronts,
            (unsigned long long)s.ideal, (unsigned long long)s.worst);
    }
    add("],\"touched\":[");
    for (int r = 0; r < launch.region_count; r++) {
        unsigned long long read = 0, written = 0;
        size_t cells = (launch.regions[r].bytes + launch.granule - 1) / launch.granule;
        for (size_t c = 0; c < cells; c++) {
            read += global_cells[r][c].reader.block != 0;
            written += global_cells[r][c].writer.block != 0;
        }
        add("%s[%llu,%llu]", r ? "," : "", read * launch.granule, written * launch.granule);
        munmap(global_cells[r], cells_bytes(launch.regions[r]));
    }
    add("]");
    if (event_file) fclose(event_file);
    free(shared_cells);
    delete instructions;
    delete index_of;
}
