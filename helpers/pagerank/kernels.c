// PageRank's inner loops in C, compiled by solve.py.
#include <math.h>
#include <stdint.h>

// Tarjan's strongly connected components (1972), without recursion. On incoming links a component
// is complete only after every component that gives it rank: the order in which Gauss-Seidel wants
// them. Fills order[n] and start[n + 1]; returns the number of components. work: 5 n integers.
int64_t order_components(int32_t n, const int32_t *indptr, const int32_t *indices,
                         int32_t *order, int32_t *start, int32_t *work) {
    int32_t *number = work, *low = work + n, *edge = work + 2L * n;
    int32_t *stack = work + 3L * n, *path = work + 4L * n;
    int32_t counter = 0, stacked = 0, listed = 0, blocks = 0;
    start[0] = 0;
    for (int32_t v = 0; v < n; v++) number[v] = 0;
    for (int32_t root = 0; root < n; root++) {
        if (number[root]) continue;
        int32_t depth = 0, next = root;
        while (depth || next >= 0) {
            if (next >= 0) {  // enter a node
                number[next] = low[next] = ++counter;
                edge[next] = indptr[next];
                stack[stacked++] = path[depth++] = next;
                next = -1;
            }
            int32_t v = path[depth - 1];
            if (edge[v] < indptr[v + 1]) {
                int32_t w = indices[edge[v]++];
                if (!number[w]) next = w;
                else if (number[w] < low[v]) low[v] = number[w];
                continue;
            }
            depth--;
            if (depth && low[v] < low[path[depth - 1]]) low[path[depth - 1]] = low[v];
            if (low[v] < number[v]) continue;
            int32_t w;
            do {  // v was the first of its component: all above it on the stack belong to it
                w = stack[--stacked];
                number[w] = INT32_MAX;  // listed: no longer lowers anybody
                order[listed++] = w;
            } while (w != v);
            start[++blocks] = listed;
        }
    }
    return blocks;
}

// Gauss-Seidel (Arasu et al. 2002, "PageRank computation and the structure of the web") on
//     x[i] = base[i] + sum over edges j -> i of scaled[j],   scaled[j] = damping * x[j] / out[j],
// visiting nodes in `order`, component after component: block b is order[start[b] .. start[b+1]).
// A new value is used at once by the nodes that follow. Returns the sum of |changes| over the sum
// of x: the L1 change of the normalised ranks, but for the rescaling.
// A link from a node to itself is solved for x[i] exactly, or each sweep would close only a part
// (1 - damping) of the gap.
// Small blocks that are cycles are repeated until they are still, so that a graph which is nearly
// acyclic needs one sweep. At the end all ranks are scaled to the one sum that the equations allow,
// found by adding them all up: sum of x[i] * (1 - damping where i has out-edges) = sum of base.
double sweep(int64_t blocks, const int32_t *start, const int32_t *order,
                   const int32_t *indptr, const int32_t *indices, const double *weights,
                   const double *factor, const double *base, double *x, double *scaled,
                   double damping, double tolerance, int32_t small) {
    double change = 0, total = 0, kept = 0, given = 0;
    for (int64_t b = 0; b < blocks; b++) {
        int32_t first = start[b], last = start[b + 1];
        int repeats = (last - first > 1 && last - first <= small) ? 1000 : 1;
        for (int pass = 0; pass < repeats; pass++) {
            double moved = 0, mass = 0;
            for (int32_t k = first; k < last; k++) {
                int32_t i = order[k];
                double sum = base[i], loop = 0;  // loop: weight of i -> i
                scaled[i] = 0;
                for (int32_t e = indptr[i]; e < indptr[i + 1]; e++) {
                    double weight = weights ? weights[e] : 1;
                    sum += weight * scaled[indices[e]];
                    if (indices[e] == i) loop += weight;
                }
                sum /= 1 - loop * factor[i];
                moved += fabs((double)sum - (double)x[i]);
                mass += sum;
                x[i] = sum;
                scaled[i] = sum * factor[i];
            }
            if (pass == 0) change += moved;
            if (pass == repeats - 1 || moved <= 0.1 * tolerance * mass) {
                total += mass;
                break;
            }
        }
    }
    for (int32_t i = 0; i < start[blocks]; i++) {
        kept += factor[i] > 0 ? x[i] * (1 - damping) : x[i];
        given += base[i];
    }
    double scale = given / kept;
    for (int32_t i = 0; i < start[blocks]; i++) {
        x[i] *= scale;
        scaled[i] *= scale;
    }
    return change / total;
}
