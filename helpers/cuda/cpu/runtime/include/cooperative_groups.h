// Cooperative groups of one block: the block, tiles of a warp, and the lanes that are together.
#pragma once

namespace cooperative_groups {

class thread_block {
  public:
    void sync(CUDA_LINE) const { cuda_barrier(line); }
    unsigned thread_rank() const {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
    unsigned num_threads() const { return size(); }
    dim3 group_index() const { return blockIdx; }
    dim3 thread_index() const { return threadIdx; }
    dim3 group_dim() const { return blockDim; }
    dim3 dim_threads() const { return blockDim; }
};
CUDA_INLINE thread_block this_thread_block() { return {}; }

class grid_group {
  public:
    __attribute__((error("the CPU runner has no sync() of a grid, which needs all its blocks at once: "
                         "make two kernels of the two sides of this barrier"))) void sync() const;
    unsigned long long size() const {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * thread_block().size();
    }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const {
        unsigned long long block = blockIdx.x + (unsigned long long)gridDim.x *
                                                    (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
        return block * thread_block().size() + thread_block().thread_rank();
    }
};
CUDA_INLINE grid_group this_grid() { return {}; }

// Some lanes of one warp; a lane's rank is its place among them.
class coalesced_group {
  public:
    explicit coalesced_group(unsigned mask) : mask(mask) {}
    unsigned size() const { return (unsigned)__popc(mask); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return (unsigned)__popc(mask & ((1u << lane()) - 1)); }
    void sync(CUDA_LINE) const { __syncwarp(mask, line); }
    template <typename T> T shfl(T value, int rank, CUDA_LINE) const {
        return __shfl_sync(mask, value, of_rank(rank), 32, line);
    }
    template <typename T> T shfl_up(T value, unsigned by, CUDA_LINE) const {
        int rank = (int)thread_rank() - (int)by;
        return __shfl_sync(mask, value, of_rank(rank < 0 ? (int)thread_rank() : rank), 32, line);
    }
    template <typename T> T shfl_down(T value, unsigned by, CUDA_LINE) const {
        unsigned rank = thread_rank() + by;
        return __shfl_sync(mask, value, of_rank((int)(rank < size() ? rank : thread_rank())), 32, line);
    }
    unsigned ballot(int predicate, CUDA_LINE) const {
        return packed(__ballot_sync(mask, predicate, line));
    }
    int any(int predicate, CUDA_LINE) const { return __any_sync(mask, predicate, line); }
    int all(int predicate, CUDA_LINE) const { return __all_sync(mask, predicate, line); }
    template <typename T> unsigned match_any(T value, CUDA_LINE) const {
        return packed(__match_any_sync(mask, value, line));
    }

  protected:
    static unsigned lane() { return thread_block().thread_rank() % 32; }
    int of_rank(int rank) const {  // the lane that has it
        unsigned left = mask;
        for (int i = 0; i < rank; i++) left &= left - 1;
        return __ffs((int)left) - 1;
    }
    unsigned packed(unsigned lanes) const {
        unsigned bits = 0;
        for (unsigned rank = 0; rank < size(); rank++)
            bits |= (lanes >> of_rank((int)rank) & 1) << rank;
        return bits;
    }
    unsigned mask;
};
CUDA_INLINE coalesced_group coalesced_threads(CUDA_LINE) {
    return coalesced_group(__activemask(line));
}

template <unsigned N, typename Parent = thread_block> class thread_block_tile : public coalesced_group {
    static_assert(N && N <= 32 && !(N & (N - 1)), "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    thread_block_tile() : coalesced_group((N == 32 ? ~0u : (1u << N % 32) - 1) << lane() / N * N) {
        unsigned left = thread_block().size() - thread_block().thread_rank() / 32 * 32;
        if (left < 32) mask &= (1u << left) - 1;  // the last warp is not full
    }
    template <typename T> T shfl_xor(T value, unsigned with, CUDA_LINE) const {
        return __shfl_xor_sync(mask, value, (int)with, N, line);
    }
    unsigned meta_group_rank() const { return thread_block().thread_rank() / N; }
    unsigned meta_group_size() const { return (thread_block().size() + N - 1) / N; }
};
template <unsigned N, typename Parent>
CUDA_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent &) { return {}; }

template <typename Group> CUDA_INLINE void sync(const Group &group, CUDA_LINE) { group.sync(line); }

template <typename T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <typename T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <typename T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <typename T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <typename T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

template <typename Group, typename T, typename Operation>
CUDA_INLINE T reduce(const Group &group, T value, Operation operation, CUDA_LINE) {
    T total = group.shfl(value, 0, line);
    for (unsigned rank = 1; rank < group.size(); rank++)
        total = operation(total, group.shfl(value, (int)rank, line));
    return total;
}

}  // namespace cooperative_groups
