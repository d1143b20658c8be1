// Receives every access of a kernel compiled with -fsanitize=thread, in place of TSan's runtime.
//
// The compiler calls __tsan_readN / __tsan_writeN before each access; the return address tells the
// line. Each access is checked (in bounds? written before? racing?) and counted per instruction.
// Each thread of the operating system keeps its own counts; only the cells of global memory are
// shared between them.
#include "recorder.h"
#include "lockstep.h"

#include <atomic>
#include <map>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unordered_map>

extern "C" {
extern char __executable_start, data_start;
}
extern thread_local uint3 threadIdx, blockIdx;

thread_local Recent recent_reads[1024];
thread_local bool look_closely;

namespace {

struct Instruction {     // one access of the code to one array
    uintptr_t pc;
    Array *array;
    Kind kind;
    uint16_t id;
    uint8_t size;
    uint64_t accesses, requests, sectors, wavefronts, ideal, worst;
    uint64_t counted_block;
    uint32_t of_warp[MAX_THREADS / 32];  // requests in the running block
};

struct Event {
    uint32_t block, occurrence, epoch;
    uint16_t thread, instruction;
    int64_t offset;      // bytes from the array's first element
};
static_assert(sizeof(Event) == 24, "read by record.py");

struct Doubt {           // a plain read of what another thread changes atomically
    Array *array;
    int64_t offset;
    unsigned size;
    Touch now, before;
};

struct Recorder {        // of one thread of the operating system
    Array arrays[MAX_ARRAYS];            // the launch's, the shared ones where this thread has them
    std::map<std::pair<uintptr_t, int>, Instruction> instructions;  // by (pc, array and kind)
    Instruction *recent[1024];           // by a hash of the pc
    std::vector<Event> events;
    bool keep_events;
    Lockstep<Instruction> lockstep;
    uintptr_t last_read;
    unsigned same_reads;
    Doubt doubts[MAX_THREADS];
    unsigned doubtful;
};

thread_local Recorder *mine;
std::mutex mutex;
std::vector<Recorder *> finished;
uint64_t constant[65'536 / 4];  // calm always: as many words as CUDA allows
unsigned block_threads, block_warps;
int shift;                // of an offset to its cell's number: granules are 1 or 4 bytes
// Of cells of global memory, so few neighbours together that blocks beside each other seldom meet;
// each lock has a cache line of its own.
constexpr size_t NEIGHBOURS = 16, LOCKS = 4096;
struct alignas(64) { std::atomic_flag flag; } locks[LOCKS];

struct Lock {
    std::atomic_flag &flag;
    explicit Lock(size_t cell) : flag(locks[cell / NEIGHBOURS % LOCKS].flag) {
        while (flag.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~Lock() { flag.clear(std::memory_order_release); }
};

Touch touch_now(Kind kind, bool is_volatile, uintptr_t pc) {
    unsigned t = current_thread;
    return {(uint32_t)block_serial, (uint32_t)pc, (uint16_t)barrier_epoch,
            (uint16_t)warp_epochs[t / 32], t, kind, is_volatile, fences_passed[t]};
}

bool same_thread(const Touch &a, const Touch &b) {
    return a.block == b.block && a.thread == b.thread;
}

// Ordered: the same thread, a barrier between, (within a warp) a warp-level one, or a variable
// through which the one told the other. Two atomics do not race, nor do volatile accesses of two
// warps, which is how a flag is waited for.
bool races_unless_told(const Touch &before, const Touch &now) {
    bool same_warp = false;
    if (before.block == now.block) {
        same_warp = before.thread / 32 == now.thread / 32;
        if (same_warp && before.warp_epoch != now.warp_epoch) return false;
    }
    if (before.kind == ATOMIC && now.kind == ATOMIC) return false;
    auto signals = [](const Touch &t) { return t.kind == ATOMIC || t.is_volatile; };
    bool atomic = before.kind == ATOMIC || now.kind == ATOMIC;
    if ((!same_warp || atomic) && signals(before) && signals(now)) return false;
    return !order_knows(before.block, before.epoch, before.thread, before.fences);
}

inline bool races(const Touch &before, const Touch &now) {
    if (!before.block) return false;
    if (before.block == now.block && (before.epoch != now.epoch || before.thread == now.thread))
        return false;
    return races_unless_told(before, now);
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

[[noreturn]] void report(const char *error, const Array &array, int64_t offset, unsigned size,
                         const Touch &now, const Touch *before = nullptr) {
    char here[256], there[256] = "null";
    thread_json(here, sizeof here, now);
    if (before) thread_json(there, sizeof there, *before);
    fail("\"error\":\"%s\",\"space\":%d,\"array\":\"%s\",\"offset\":%lld,\"size\":%u,\"bytes\":%zu,"
         "\"now\":%s,\"before\":%s", error, array.space, array.name, (long long)offset, size,
         array.bytes, here, there);
}

size_t cell_of(int64_t offset) { return (size_t)offset >> shift; }
size_t cell_count(const Array &array) { return cell_of(array.bytes) + 1; }
size_t cells_bytes(const Array &array) { return cell_count(array) * (sizeof(Cell) + sizeof(uint64_t)); }

void use_cells(Array &array, void *memory) {
    array.cells = (Cell *)memory;
    array.calm = (uint64_t *)(array.cells + cell_count(array));
}

// The moment in which one more reader of a cell says nothing new: two readers are known, one of
// which any writer would meet that this reader meets. 0: there is no such moment.
inline uint64_t calm_after_read(const Cell &cell) {
    const Touch &writer = cell.writer, &now = cell.reader, &other = cell.other_reader;
    if (!other.block || now.is_volatile || other.is_volatile) return 0;
    if (now.block != other.block) return writer.block ? 0 : ALWAYS;
    if (now.epoch != other.epoch || (writer.block && writer.epoch == now.epoch)) return 0;
    if (now.thread / 32 != other.thread / 32) return moments[0];
    return now.warp_epoch == other.warp_epoch ? moments[1 + now.thread / 32] : 0;
}

__attribute__((always_inline)) inline void check_cell(size_t c, const Touch &now, Array &array,
                                                      int64_t offset, unsigned size) {
    Cell &cell = array.cells[c];
    if (array.space == SHARED && cell.writer.block != now.block) {
        if (now.kind != WRITE) report("uninitialised", array, offset, size, now);
        cell = Cell{};  // what an earlier block left here is not this block's
    }
    if (races(cell.writer, now)) {
        if (now.kind != READ || cell.writer.kind != ATOMIC)
            report("race", array, offset, size, now, &cell.writer);
        mine->doubts[now.thread] = {&array, offset, size, now, cell.writer};
        mine->doubtful++;
        look_closely = true;
    }
    if (now.kind == READ) {
        if (cell.reader.block && !same_thread(cell.reader, now)) cell.other_reader = cell.reader;
        cell.reader = now;
        array.calm[c] = calm_after_read(cell);
        return;
    }
    array.calm[c] = 0;
    for (const Touch *reader : {&cell.reader, &cell.other_reader})
        if (races(*reader, now)) report("race", array, offset, size, now, reader);
    cell.writer = now;
    if (now.kind == ATOMIC && same_thread(cell.reader, now)) cell.reader.block = 0;  // see settle
}

// `do { assumed = old; old = atomicCAS(x, assumed, ...) } while (old != assumed)` begins with a
// plain read of x, which the atomic that follows puts right. Followed by anything else it races.
void settle(bool ended, uintptr_t address, Kind kind) {
    Doubt &doubt = mine->doubts[current_thread];
    if (!doubt.array) return;
    if (ended || kind != ATOMIC || address != doubt.array->begin + (uintptr_t)doubt.offset)
        report("race", *doubt.array, doubt.offset, doubt.size, doubt.now, &doubt.before);
    doubt.array = nullptr;
    mine->doubtful--;
}

void check_cells(Array &array, int64_t offset, unsigned size, const Touch &now) {
    for (size_t c = cell_of(offset), end = cell_of(offset + size - 1); c <= end; c++) {
        if (array.space == GLOBAL && launch.threads > 1) {
            Lock lock(c);
            check_cell(c, now, array, offset, size);
        } else {
            check_cell(c, now, array, offset, size);
        }
    }
}

// The array that an access of `size` bytes at `address` lies in, or is nearest to (then it fails).
Array *find(uintptr_t address, unsigned size, Kind kind, void *pc) {
    Array *nearest = nullptr;
    size_t distance = 1 << 20;
    for (int a = 0; a < launch.array_count; a++) {
        Array &array = mine->arrays[a];
        if (address >= array.begin && address - array.begin + size <= array.bytes) return &array;
        if (array.mapping && address - (uintptr_t)array.mapping < array.mapped) {
            nearest = &array;
            break;
        }
        size_t away = address < array.begin ? array.begin - address
                                            : address - (array.begin + array.bytes) + 1;
        if (away < distance) distance = away, nearest = &array;
    }
    Touch now = touch_now(kind, false, (uintptr_t)pc);
    char *pointer = (char *)address;
    auto inside = [&](const void *begin, const void *end) { return pointer >= begin && pointer < end; };
    if (inside(&threadIdx, &threadIdx + 1) || inside(&blockIdx, &blockIdx + 1)) return nullptr;
    if (kind == READ && inside(&__executable_start, &data_start)) return nullptr;  // literals
    if (nearest) report("bounds", *nearest, (int64_t)(address - nearest->begin), size, now);
    Array nothing = {};
    report("wild", nothing, (int64_t)address, size, now);
}

Instruction &instruction_of(uintptr_t pc, Array *array, Kind kind, unsigned size) {
    int number = (int)(array - mine->arrays);
    auto [found, fresh] = mine->instructions.try_emplace({pc, number * 4 + kind});
    Instruction &ins = found->second;
    if (fresh) {
        ins.pc = pc;
        ins.array = array;
        ins.kind = kind;
        ins.size = (uint8_t)size;
        ins.id = (uint16_t)(mine->instructions.size() - 1);
    }
    return ins;
}

void count(Instruction &ins, uintptr_t address, int64_t offset) {
    unsigned t = current_thread;
    if (ins.counted_block != block_serial) {
        ins.counted_block = block_serial;
        memset(ins.of_warp, 0, sizeof ins.of_warp);
    }
    auto &request = mine->lockstep.request(t, &ins);
    if (!request.group.mask) request.number = ins.of_warp[t / 32]++;
    add_lane(request.group, t % 32, (uint32_t)address, ins.size, mine->lockstep.scattered);
    ins.accesses++;
    if (mine->keep_events && mine->events.size() < launch.event_limit)
        mine->events.push_back({(uint32_t)(block_serial - 1), request.number, barrier_epoch,
                                (uint16_t)t, ins.id, offset});
}

// A thread that reads one place over and over waits for another thread: that one must get to run.
void notice_waiting(uintptr_t address) {
    if (address != mine->last_read) {
        mine->last_read = address;
        mine->same_reads = 0;
    } else if (++mine->same_reads == 64) {
        mine->same_reads = 0;
        give_way();
    }
}

}  // namespace

void record_access(const void *pointer, unsigned size, Kind kind, bool is_volatile, void *at) {
    if (!current || !mine) return;
    uintptr_t address = (uintptr_t)pointer, pc = (uintptr_t)at;
    Instruction *&recent = mine->recent[slot(pc)], *ins = recent;
    if (!ins || ins->pc != pc || ins->size != size || ins->kind != kind ||
        address < ins->array->begin || address - ins->array->begin + size > ins->array->bytes) {
        if (address - stacks_begin < STACKS_BYTES) return;  // a thread's own variables
        Array *array = find(address, size, kind, at);
        if (!array) return;
        ins = recent = &instruction_of(pc, array, kind, size);
    }
    Array &array = *ins->array;
    int64_t offset = (int64_t)(address - array.begin);
    if (kind == READ && !is_volatile && size % 4 == 0 && shift == 2)
        recent_reads[slot(pc)] = {pc, array.begin, array.bytes - size + 1, array.calm};
    if (mine->doubtful && array.space != CONSTANT) settle(false, address, kind);
    Touch now = touch_now(kind, is_volatile, pc);
    if (kind != READ && !array.writable) report("const", array, offset, size, now);
    if (array.space != CONSTANT) {
        bool signals = kind == ATOMIC || is_volatile;
        if (signals && kind == READ) notice_waiting(address);
        order_arrived();
        if (signals) order_reads(address, array.space == SHARED);
        check_cells(array, offset, size, now);
        if (signals && kind != READ) order_writes(address, array.space == SHARED);
    }
    if (launch.events) count(*ins, address, offset);
}

void recorder_fiber_end() {
    if (mine->doubtful) settle(true, 0, READ);
}

void report_misaligned(const void *pointer, unsigned alignment, void *pc) {
    uintptr_t address = (uintptr_t)pointer;
    Array nothing = {}, *array = &nothing;
    for (int a = 0; a < launch.array_count; a++) {
        Array &one = mine->arrays[a];
        if (address >= one.begin && address < one.begin + one.bytes) array = &one;
    }
    report("misaligned", *array, (int64_t)(address - array->begin), alignment,
           touch_now(READ, false, (uintptr_t)pc));
}

void recorder_begin() {
    block_threads = launch.block.x * launch.block.y * launch.block.z;
    block_warps = (block_threads + 31) / 32;
    shift = launch.granule == 4 ? 2 : 0;
    for (int a = 0; a < launch.array_count; a++) {
        Array &array = launch.arrays[a];
        if (array.space == CONSTANT) {
            std::fill(constant, constant + 65'536 / 4, ALWAYS);
            array.calm = constant;
        }
        if (array.space != GLOBAL) continue;
        size_t bytes = cells_bytes(array);  // pages that nobody touches cost nothing
        void *cells = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (cells == MAP_FAILED) fail("\"error\":\"internal\",\"what\":\"no memory to record in\"");
#ifdef MADV_HUGEPAGE
        madvise(cells, bytes, MADV_HUGEPAGE);  // thousands of page faults fewer
#endif
        use_cells(array, cells);
    }
    order_begin();
}

void recorder_thread_begin() {
    mine = new Recorder{};
    memcpy(mine->arrays, launch.arrays, sizeof launch.arrays);
    for (int a = 0; a < launch.array_count; a++) {
        Array &array = mine->arrays[a];
        if (array.space != SHARED) continue;
        array.begin += (uintptr_t)&cuda_tls_anchor;
        use_cells(array, calloc(cells_bytes(array), 1));
    }
}

void recorder_thread_end() {
    for (int a = 0; a < launch.array_count; a++)
        if (mine->arrays[a].space == SHARED) free(mine->arrays[a].cells);
    std::lock_guard<std::mutex> guard(mutex);
    finished.push_back(mine);
    mine = nullptr;
}

void recorder_block_begin() {
    mine->keep_events = launch.events && launch.every_block;
    if (launch.events) {
        for (uint64_t kept : launch.kept_blocks) mine->keep_events |= kept == block_serial - 1;
        mine->lockstep.begin(block_warps);
    }
    order_block_begin();
    look_closely = launch.events;
}

void recorder_block_end() {
    if (!launch.events) return;
    const auto &scattered = mine->lockstep.scattered;
    mine->lockstep.each([&](Instruction &ins, const Group &group) {
        ins.requests++;
        unsigned ideal = 0, cost;
        if (ins.array->space == SHARED) {
            ins.wavefronts += cost = count_wavefronts(group, ins.size, &ideal, scattered);
            ins.ideal += ideal;
        } else {
            ins.sectors += cost = count_sectors(group, ins.size, scattered);
        }
        if (cost > ins.worst) ins.worst = cost;
    });
}

// Where the kernel's code enters a loop, begins a round of it and leaves it (see lockstep.h).
#define LOOP_EVENT(name, step)                                                  \
    extern "C" __attribute__((force_align_arg_pointer)) void name##_recorded() { \
        if (current && mine) mine->lockstep.step;                               \
    }                                                                           \
    extern "C" void name() {                                                    \
        if (launch.events) name##_recorded();                                   \
    }
#if !defined(__x86_64__)
#define force_align_arg_pointer unused
#endif
LOOP_EVENT(cuda_loop_enter, enter(current_thread, (uintptr_t)__builtin_return_address(0)))
LOOP_EVENT(cuda_loop_next, next(current_thread))
LOOP_EVENT(cuda_loop_leave, leave(current_thread))

// A function that is no part of its kernel (it calls itself) is a room of its own, as a loop is.
void recorder_call(void *from) {
    if (current && mine && launch.events) mine->lockstep.enter(current_thread, (uintptr_t)from);
}
void recorder_return() {
    if (current && mine && launch.events) mine->lockstep.leave(current_thread);
}

// Adds up what the threads counted, and puts their events into the blocks' order.
static void write_events(const std::map<std::pair<uintptr_t, int>, Instruction> &total,
                         std::vector<Event> &events) {
    for (Recorder *recorder : finished) {
        std::vector<uint16_t> numbers(recorder->instructions.size());
        for (auto &[key, ins] : recorder->instructions) numbers[ins.id] = total.at(key).id;
        for (Event event : recorder->events) {
            event.instruction = numbers[event.instruction];
            events.push_back(event);
        }
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const Event &a, const Event &b) { return a.block < b.block; });
    if (events.size() > launch.event_limit) events.resize(launch.event_limit);
    FILE *file = fopen(launch.events, "wb");
    if (!file || fwrite(events.data(), sizeof(Event), events.size(), file) != events.size())
        fail("\"error\":\"internal\",\"what\":\"cannot write the events\"");
    fclose(file);
}

void recorder_end(char *answer, size_t size) {
    std::map<std::pair<uintptr_t, int>, Instruction> total;
    for (Recorder *recorder : finished)
        for (auto &[key, ins] : recorder->instructions) {
            auto [found, fresh] = total.try_emplace(key, ins);
            Instruction &sum = found->second;
            if (fresh) continue;
            sum.accesses += ins.accesses;
            sum.requests += ins.requests;
            sum.sectors += ins.sectors;
            sum.wavefronts += ins.wavefronts;
            sum.ideal += ins.ideal;
            sum.worst = std::max(sum.worst, ins.worst);
        }
    uint16_t id = 0;
    for (auto &[key, ins] : total) ins.id = id++;
    std::vector<Event> events;
    if (launch.events) write_events(total, events);
    size_t used = 0;
    auto add = [&](const char *format, auto... values) {
        if (used < size) used += snprintf(answer + used, size - used, format, values...);
    };
    add(",\"events\":%llu,\"instructions\":[", (unsigned long long)events.size());
    for (auto &[key, s] : total)
        add("%s{\"pc\":%llu,\"array\":%d,\"kind\":%d,\"space\":%d,\"size\":%d,\"count\":%llu,"
            "\"requests\":%llu,\"sectors\":%llu,\"wavefronts\":%llu,\"ideal\":%llu,\"worst\":%llu}",
            s.id ? "," : "", (unsigned long long)s.pc, key.second / 4, s.kind, s.array->space,
            s.size, (unsigned long long)s.accesses, (unsigned long long)s.requests,
            (unsigned long long)s.sectors, (unsigned long long)s.wavefronts,
            (unsigned long long)s.ideal, (unsigned long long)s.worst);
    add("],\"touched\":[");
    for (int a = 0; a < launch.array_count; a++) {
        Array &array = launch.arrays[a];
        if (array.space != GLOBAL) continue;
        unsigned long long read = 0, written = 0;
        size_t cells = (array.bytes + launch.granule - 1) / launch.granule;
        if (a < launch.region_count) {
            for (size_t c = 0; c < cells; c++) {
                read += array.cells[c].reader.block != 0;
                written += array.cells[c].writer.block != 0;
            }
            add("%s[%llu,%llu]", a ? "," : "", read * launch.granule, written * launch.granule);
        }
        munmap(array.cells, cells_bytes(array));
    }
    add("]");
    for (Recorder *recorder : finished) delete recorder;
    finished.clear();
}
