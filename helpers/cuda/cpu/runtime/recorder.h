// Who touched a cell of memory, as the recorder keeps it.
#pragma once
#include "runtime.h"

#include <algorithm>

struct Touch {           // nobody's while block is 0
    uint32_t block, pc;  // linked at a fixed address, so 32 bits hold it
    uint16_t epoch, warp_epoch;
    uint32_t thread : 10, kind : 2, is_volatile : 1, fences : 19;
};
static_assert(sizeof(Touch) == 16, "three to a cell, a cell for each word of memory");
struct Cell { Touch writer, reader, other_reader; };
