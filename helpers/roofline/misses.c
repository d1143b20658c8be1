// A set-associative cache through which the accesses of a matrix product go, as cache.py has it:
// the line that was not used for the longest time leaves, a store fetches its line.
#include <stdint.h>
#include <stdlib.h>

typedef struct { int64_t line, sets, ways, *tags, misses; } Cache;  // tags of a set: newest first

static inline void touch(Cache *cache, int64_t address) {
    int64_t tag = address / cache->line, *set = cache->tags + tag % cache->sets * cache->ways, w = 0;
    while (w < cache->ways && set[w] != tag) w++;
    if (w == cache->ways) {
        cache->misses++;
        w--;
    }
    for (; w > 0; w--) set[w] = set[w - 1];
    set[0] = tag;
}

// Misses of C += A B, n x n floats, in the loop order p, q, r (0: i, 1: j, 2: k), of which the outer
// loop runs `outer` times; with `turned`, B is stored column after column. For each step c, a, b are
// read and c is written.
int64_t count_misses(int64_t n, int32_t p, int32_t q, int32_t r, int32_t turned,
                     int64_t outer, int64_t size, int64_t line, int64_t ways) {
    Cache cache = {line, size / line / ways, ways, malloc(size / line * sizeof(int64_t)), 0};
    for (int64_t w = 0; w < size / line; w++) cache.tags[w] = -1;
    int64_t at[3], *i = at, *j = at + 1, *k = at + 2, whole = n * n * 4;
    for (at[p] = 0; at[p] < outer; at[p]++)
        for (at[q] = 0; at[q] < n; at[q]++)
            for (at[r] = 0; at[r] < n; at[r]++) {
                int64_t c = 2 * whole + (*i * n + *j) * 4;
                touch(&cache, c);
                touch(&cache, (*i * n + *k) * 4);
                touch(&cache, whole + (turned ? *j * n + *k : *k * n + *j) * 4);
                touch(&cache, c);
            }
    free(cache.tags);
    return cache.misses;
}
