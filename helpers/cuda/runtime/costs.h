// What one warp's request costs a GPU: sectors of global memory, passes through shared memory's banks.
#pragma once
#include <stdint.h>

struct Group { uint64_t block; uint32_t mask; uintptr_t address[32]; };  // one warp's request

// 32-byte sectors that one warp's request touches: what a GPU's memory system moves.
inline unsigned count_sectors(const Group &group, unsigned size) {
    uintptr_t seen[64];
    unsigned n = 0;
    for (int lane = 0; lane < 32; lane++) {
        if (!(group.mask >> lane & 1)) continue;
        for (uintptr_t s = group.address[lane] / 32; s <= (group.address[lane] + size - 1) / 32; s++) {
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
    *ideal = 0;
    for (unsigned first = 0; first < 32; first += lanes) {
        uintptr_t words[32][32];
        unsigned depth[32] = {}, worst = 0;
        for (unsigned lane = first; lane < first + lanes; lane++) {
            if (!(group.mask >> lane & 1)) continue;
            for (unsigned byte = 0; byte < size; byte += 4) {
                uintptr_t word = (group.address[lane] + byte) / 4;
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
