// What one warp's request costs a GPU: sectors of global memory, passes through shared memory's banks.
#pragma once
#include <stdint.h>

struct Group {           // one warp's request
    uint32_t block, mask;
    uint32_t address[32];  // the low half: no request spans 4 GiB
};

// What nearly every request is, told without looking at pairs of lanes: all 32 lanes take part, at
// `step` bytes from one to the next (0: all the same).
inline bool in_step(const Group &group, unsigned step) {
    uint32_t off = ~group.mask;
    for (unsigned lane = 0; lane < 32; lane++)
        off |= group.address[lane] ^ (group.address[0] + lane * step);
    return !off;
}

// 32-byte sectors that one warp's request touches: what a GPU's memory system moves.
inline unsigned count_sectors(const Group &group, unsigned size) {
    uint64_t first = group.address[0];
    if (in_step(group, size)) return (first + 32 * size - 1) / 32 - first / 32 + 1;
    if (in_step(group, 0)) return (first + size - 1) / 32 - first / 32 + 1;
    uint64_t seen[64];
    unsigned n = 0;
    for (int lane = 0; lane < 32; lane++) {
        if (!(group.mask >> lane & 1)) continue;
        uint64_t a = group.address[lane];
        for (uint64_t s = a / 32; s <= (a + size - 1) / 32; s++) {
            unsigned i = n;
            while (i > 0 && seen[i - 1] != s) i--;
            if (!i && n < 64) seen[n++] = s;
        }
    }
    return n;
}

// Shared memory: 32 banks of 4 bytes; lanes of a phase that want different words of one bank wait.
inline unsigned count_wavefronts(const Group &group, unsigned size, unsigned *ideal) {
    unsigned lanes = size <= 4 ? 32 : size == 8 ? 16 : 8, total = 0;
    if ((size >= 4 && group.address[0] % 4 == 0 && in_step(group, size)) || in_step(group, 0))
        return *ideal = 32 / lanes;
    *ideal = 0;
    for (unsigned first = 0; first < 32; first += lanes) {
        uint64_t words[32][32];
        unsigned depth[32] = {}, worst = 0;
        for (unsigned lane = first; lane < first + lanes; lane++) {
            if (!(group.mask >> lane & 1)) continue;
            for (unsigned byte = 0; byte < size; byte += 4) {
                uint64_t word = ((uint64_t)group.address[lane] + byte) / 4;
                unsigned bank = word % 32, i = 0;
                while (i < depth[bank] && words[bank][i] != word) i++;
                if (i == depth[bank] && depth[bank] < 32) words[bank][depth[bank]++] = word;
                if (depth[bank] > worst) worst = depth[bank];
            }
        }
        total += worst;
        *ideal += worst > 0;
    }
    return total;
}
