// What happened before what, where no barrier says so: locks, flags, counters.
//
// A thread that has passed a __threadfence() and then changes an atomic (or volatile) variable
// publishes what it did before the fence; a thread that reads the variable afterwards knows of it.
// An access is recorded before it is made. To publish is right then, to learn is too early where
// blocks run side by side: the value may come from a publication in between. So a thread learns
// once more at its next access, when the value is there.
// Sets of known accesses are not copied: a thread notes which variable it read and when, and an
// access is looked up only where it would otherwise be reported as a race.
#include "runtime.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string.h>
#include <unordered_map>

namespace {

struct Variable;
struct Seen { Variable *variable; uint64_t when; };  // everything published there until then
struct Published {
    uint32_t block, epoch;   // all of the block's accesses before this barrier interval ...
    uint16_t thread;
    uint32_t fences;         // ... and this thread's before its last fence
    uint64_t when;
};
struct Variable {
    std::unordered_map<uint32_t, std::vector<Published>> by_block;
    std::vector<std::pair<Seen, uint64_t>> seen;  // what the publishers had seen, and when they said
};

std::mutex mutex;
std::map<std::pair<uint64_t, uintptr_t>, Variable> variables;  // by block (0: global memory)
uint64_t now;                                                  // counts publications
thread_local std::vector<Seen> seen[MAX_THREADS];

void add(std::vector<Seen> &list, Seen item) {
    for (Seen &old : list)
        if (old.variable == item.variable) {
            old.when = std::max(old.when, item.when);
            return;
        }
    list.push_back(item);
}

bool knows(const Seen &what, uint32_t block, uint32_t epoch, unsigned thread, uint32_t fences,
           std::set<std::pair<Variable *, uint64_t>> &visited) {
    if (!visited.insert({what.variable, what.when}).second) return false;
    auto found = what.variable->by_block.find(block);
    if (found != what.variable->by_block.end())
        for (auto p = found->second.rbegin(); p != found->second.rend(); ++p)
            if (p->when <= what.when &&
                (epoch < p->epoch || (thread == p->thread && fences < p->fences)))
                return true;
    for (auto &[earlier, said] : what.variable->seen)
        if (said <= what.when && knows(earlier, block, epoch, thread, fences, visited)) return true;
    return false;
}

void learn(unsigned t, uintptr_t address, bool shared) {
    Variable &variable = variables[{shared ? block_serial : 0, address}];
    if (!variable.by_block.empty() || !variable.seen.empty()) add(seen[t], {&variable, now});
}

void learn_late(unsigned t) {
    if (!reading[t].address) return;
    std::lock_guard<std::mutex> guard(mutex);
    learn(t, reading[t].address, reading[t].shared);
    reading[t].address = 0;
}

}  // namespace

thread_local uint32_t fences_passed[MAX_THREADS];
thread_local Reading reading[MAX_THREADS];
std::atomic<bool> order_in_use;

void order_begin() {
    variables.clear();
    order_in_use = false;
    now = 0;
}

void order_block_begin() {
    memset(fences_passed, 0, sizeof fences_passed);
    memset(reading, 0, sizeof reading);
    if (!order_in_use) return;
    for (auto &list : seen) list.clear();
}

void order_fence() {
    if (!launch.check || !current) return;
    order_in_use = look_closely = true;
    fences_passed[current_thread]++;
}

void order_learn_late() { learn_late(current_thread); }

// An atomic or volatile access by the running thread, about to be made: it learns.
void order_reads(uintptr_t address, bool shared) {
    look_closely = true;
    reading[current_thread] = {address, shared};  // kept also where the first fence is yet to come
    if (!order_in_use) return;
    std::lock_guard<std::mutex> guard(mutex);
    learn(current_thread, address, shared);
}

// The same, and it writes: what the thread did before its last fence is published.
void order_writes(uintptr_t address, bool shared) {
    unsigned t = current_thread;
    if (!order_in_use || !fences_passed[t]) return;
    std::lock_guard<std::mutex> guard(mutex);
    Variable &variable = variables[{shared ? block_serial : 0, address}];
    now++;
    variable.by_block[(uint32_t)block_serial].push_back(
        {(uint32_t)block_serial, barrier_epoch, (uint16_t)t, fences_passed[t], now});
    for (const Seen &item : seen[t])
        if (item.variable != &variable) variable.seen.push_back({item, now});
}

// The threads [first, first + count) of `mask` have met: each knows what any of them knew.
void order_meet(int first, int count, uint64_t mask_of_warp, bool whole_block) {
    if (!order_in_use) return;
    std::vector<Seen> all;
    auto takes_part = [&](int i) { return whole_block || mask_of_warp >> i & 1; };
    for (int i = 0; i < count; i++)
        if (takes_part(i)) learn_late(first + i);
    for (int i = 0; i < count; i++)
        if (takes_part(i))
            for (const Seen &item : seen[first + i]) add(all, item);
    for (int i = 0; i < count; i++)
        if (takes_part(i)) seen[first + i] = all;
}

bool order_knows(uint32_t block, uint32_t epoch, unsigned thread, uint32_t fences) {
    if (!order_in_use) return false;
    std::lock_guard<std::mutex> guard(mutex);
    std::set<std::pair<Variable *, uint64_t>> visited;
    for (const Seen &what : seen[current_thread])
        if (knows(what, block, epoch, thread, fences, visited)) return true;
    return false;
}
