// What one warp's request costs a GPU: sectors of global memory, passes through shared memory's banks.
#pragma once
#include <stdint.h>

#include <array>
#include <vector>

// One warp's request, told lane by lane, whichever comes first. In nearly every one all lanes are
// `size` bytes from one to the next, or all at one place: one address then gives the others. The
// addresses are kept only of what is not, so that a block's requests fit the nearest cache.
struct Group {
    uint32_t mask;
    uint32_t first;        // the first one's address: the low half, since no request spans 4 GiB
    uint8_t first_lane, in_step, at_one;
    uint32_t scattered;    // where the addresses are, if neither
};
using Addresses = std::array<uint32_t, 32>;

inline uint32_t address_in_step(const Group &group, unsigned lane, unsigned size) {
    return group.first + (group.in_step ? (lane - group.first_lane) * size : 0);
}

inline void add_lane(Group &group, unsigned lane, uint32_t address, unsigned size,
                     std::vector<Addresses> &scattered) {
    if (!group.mask) {
        group.first = address;
        group.first_lane = (uint8_t)lane;
        group.in_step = group.at_one = 1;
    } else if (group.in_step | group.at_one) {
        uint8_t in_step = address == group.first + (lane - group.first_lane) * size;
        uint8_t at_one = address == group.first;
        if (!((group.in_step & in_step) | (group.at_one & at_one))) {
            Addresses all;
            for (unsigned i = 0; i < 32; i++) all[i] = address_in_step(group, i, size);
            group.scattered = (uint32_t)scattered.size();
            scattered.push_back(all);
        }
        group.in_step &= in_step;
        group.at_one &= at_one;
    }
    if (!(group.in_step | group.at_one)) scattered[group.scattered][lane] = address;
    group.mask |= 1u << lane;
}

inline Addresses addresses_of(const Group &group, unsigned size,
                              const std::vector<Addresses> &scattered) {
    if (!(group.in_step | group.at_one)) return scattered[group.scattered];
    Addresses all;
    for (unsigned lane = 0; lane < 32; lane++) all[lane] = address_in_step(group, lane, size);
    return all;
}

// 32-byte sectors that one warp's request touches: what a GPU's memory system moves.
inline unsigned count_sectors(const Group &group, unsigned size,
                              const std::vector<Addresses> &scattered) {
    if (group.at_one) {
        uint64_t begin = group.first;
        return (begin + size - 1) / 32 - begin / 32 + 1;
    }
    if (group.in_step && !~group.mask) {
        uint64_t begin = address_in_step(group, 0, size);
        return (begin + 32 * size - 1) / 32 - begin / 32 + 1;
    }
    Addresses address = addresses_of(group, size, scattered);
    uint64_t seen[64];
    unsigned n = 0;
    for (int lane = 0; lane < 32; lane++) {
        if (!(group.mask >> lane & 1)) continue;
        uint64_t a = address[lane];
        for (uint64_t s = a / 32; s <= (a + size - 1) / 32; s++) {
            unsigned i = n;
            while (i > 0 && seen[i - 1] != s) i--;
            if (!i && n < 64) seen[n++] = s;
        }
    }
    return n;
}

// Shared memory: 32 banks of 4 bytes; lanes of a phase that want different words of one bank wait.
inline unsigned count_wavefronts(const Group &group, unsigned size, unsigned *ideal,
                                 const std::vector<Addresses> &scattered) {
    unsigned lanes = size <= 4 ? 32 : size == 8 ? 16 : 8, total = 0;
    bool conflicts_with_none = size >= 4 && group.first % 4 == 0 && group.in_step;
    if (!~group.mask && (conflicts_with_none || group.at_one)) return *ideal = 32 / lanes;
    Addresses address = addresses_of(group, size, scattered);
    *ideal = 0;
    for (unsigned first = 0; first < 32; first += lanes) {
        uint64_t words[32][32];
        unsigned depth[32] = {}, worst = 0;
        for (unsigned lane = first; lane < first + lanes; lane++) {
            if (!(group.mask >> lane & 1)) continue;
            for (unsigned byte = 0; byte < size; byte += 4) {
                uint64_t word = ((uint64_t)address[lane] + byte) / 4;
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
