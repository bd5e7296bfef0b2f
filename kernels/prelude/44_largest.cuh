// The largest elements of a row, with their positions.

//@ ga_ranked
// An integer that orders as an element does, and its position, as one number: of equal elements the first is largest.
GA_INLINE unsigned long long ga_ranked(unsigned order, unsigned at) { return (unsigned long long)order << 32 | ~at; }

//@ ga_top_step
// A number of this lane or of its neighbour `apart` from it: the larger one of both or the other, so that they change places.
GA_INLINE unsigned long long ga_top_step(unsigned long long x, unsigned apart, bool larger) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, x, apart);
    return (x > other) == larger ? x : other;
}

//@ ga_top_rising
// Numbers of 32 lanes in order, the smallest first.
GA_INLINE unsigned long long ga_top_rising(unsigned long long x) {
    const unsigned lane = threadIdx.x % 32u;
#pragma unroll
    for (unsigned run = 2u; run <= 32u; run *= 2u)
#pragma unroll
        for (unsigned apart = run / 2u; apart > 0u; apart /= 2u)
            x = ga_top_step(x, apart, ((lane & apart) != 0u) == ((lane & run) == 0u));
    return x;
}

//@ ga_top_meet
// The largest of a list, 32 numbers in each of its parts in descending order over lanes, and of 32 ascending numbers.
// Of a part and the numbers merged with it the larger half stays, and the smaller half is merged with the next part.
template <int PARTS> GA_INLINE void ga_top_meet(unsigned long long (&list)[PARTS], unsigned long long x) {
    const unsigned lane = threadIdx.x % 32u;
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        // Both halves fall and then rise, or rise and then fall: five steps put them in order.
        unsigned long long high = list[p] > x ? list[p] : x, low = list[p] > x ? x : list[p];
#pragma unroll
        for (unsigned apart = 16u; apart > 0u; apart /= 2u) {
            high = ga_top_step(high, apart, (lane & apart) == 0u);
            if (p + 1 < PARTS) low = ga_top_step(low, apart, (lane & apart) != 0u);
        }
        list[p] = high;
        x = low;
    }
}

//@ ga_top
// The K largest numbers that a warp has seen, and others, the largest first, one in each lane and then one more.
// `least` is the last of the K; `many` larger numbers wait to be merged into the list.
template <int K> struct ga_top {
    unsigned long long list[(K + 31) / 32], least;
    unsigned many;
};

//@ ga_top_take
// N more numbers of each lane. Those that may be among the K largest go to `waiting`, which has room for N + 1 of each
// lane; they are merged into the list 32 at a time.
template <int K, int N> GA_INLINE void ga_top_take(ga_top<K>& top, const unsigned long long (&x)[N], unsigned long long* waiting) {
    const unsigned lane = threadIdx.x % 32u;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const bool larger = x[k] > top.least;
        const unsigned all = __ballot_sync(0xffffffffu, larger);
        if (larger) waiting[top.many + __popc(all & ((1u << lane) - 1u))] = x[k];
        top.many += __popc(all);
    }
    __syncwarp();
    while (top.many >= 32u) {
        top.many -= 32u;
        ga_top_meet(top.list, ga_top_rising(waiting[top.many + lane]));
        top.least = __shfl_sync(0xffffffffu, top.list[(K - 1) / 32], (K - 1) % 32);
    }
    // Before `waiting` is written again.
    __syncwarp();
}

//@ ga_top_block
// The list of the first warp of a block becomes that of all of them; `waiting` has ROOM numbers for each warp.
template <int WARPS, int ROOM, int K> GA_INLINE void ga_top_block(ga_top<K>& top, unsigned long long* waiting) {
    constexpr int PARTS = (K + 31) / 32;
    const unsigned lane = threadIdx.x % 32u, warp = threadIdx.x / 32u;
    unsigned long long* const own = waiting + warp * ROOM;
    ga_top_meet(top.list, ga_top_rising(lane < top.many ? own[lane] : 0));
#pragma unroll
    for (int p = 0; p < PARTS; ++p) own[p * 32 + lane] = top.list[p];
    __syncthreads();
    if (warp == 0)
        for (int w = 1; w < WARPS; ++w)
#pragma unroll
            for (int p = 0; p < PARTS; ++p) ga_top_meet(top.list, waiting[w * ROOM + p * 32 + 31u - lane]);
}
