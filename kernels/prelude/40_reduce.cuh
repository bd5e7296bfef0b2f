// Reductions over a block, and partial results between blocks.

//@ ga_warp_reduce
// Every lane gets the value merged over its warp, in an order that is the same in every run.
template <class T, class Merge> GA_INLINE T ga_warp_reduce(T v, Merge merge) {
    for (int o = 16; o > 0; o >>= 1) v = merge(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}

//@ ga_block_reduce
// Every thread gets the value merged over the block. `part` holds one value a warp.
template <int WARPS, class T, class Merge> GA_INLINE T ga_block_reduce(T v, T* part, Merge merge) {
    v = ga_warp_reduce(v, merge);
    if (threadIdx.x % 32u == 0) part[threadIdx.x / 32u] = v;
    __syncthreads();
    v = part[0];
    for (int w = 1; w < WARPS; ++w) v = merge(v, part[w]);
    __syncthreads();
    return v;
}

//@ ga_partial
// Partial results of blocks lie 8 bytes apart; volatile, because another block wrote them.
template <class T> GA_INLINE volatile T& ga_partial(unsigned char* work, unsigned block) {
    return *(volatile T*)(work + 8u * block);
}
