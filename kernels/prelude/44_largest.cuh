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

//@ ga_top_meet
// The 32 largest of two lists of 32, a number of each in a lane: `top` falls from lane to lane, and so does what comes back.
// `x` rises, or else is put in order first.
template <bool RISES> GA_INLINE unsigned long long ga_top_meet(unsigned long long top, unsigned long long x) {
    const unsigned lane = threadIdx.x % 32u;
    if (!RISES)
#pragma unroll
        for (unsigned run = 2u; run <= 32u; run *= 2u)
#pragma unroll
            for (unsigned apart = run / 2u; apart > 0u; apart /= 2u)
                x = ga_top_step(x, apart, ((lane & apart) != 0u) == ((lane & run) == 0u));
    // The largest of both fall and then rise, or rise and then fall: five steps put them in order.
    top = top > x ? top : x;
#pragma unroll
    for (unsigned apart = 16u; apart > 0u; apart /= 2u) top = ga_top_step(top, apart, (lane & apart) == 0u);
    return top;
}

//@ ga_top
// The K largest numbers that a warp has seen, and others: a number in each lane, the largest first. `least` is the last of
// the K; `many` numbers that are larger wait to meet the list.
template <int K> struct ga_top {
    unsigned long long own, least;
    unsigned many;
};

//@ ga_top_take
// N more numbers of each lane. Those that may be among the K largest go to `waiting`, which has room for N + 1 of each lane;
// the list meets them 32 at a time.
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
        top.own = ga_top_meet<false>(top.own, waiting[top.many + lane]);
        top.least = __shfl_sync(0xffffffffu, top.own, K - 1);
    }
    // Before `waiting` is written again.
    __syncwarp();
}

//@ ga_top_block
// Lane k of the first warp of a block gets the largest number but k that the block has seen, for k < K; `waiting` has ROOM
// numbers for each warp.
template <int WARPS, int ROOM, int K> GA_INLINE unsigned long long ga_top_block(ga_top<K> top, unsigned long long* waiting) {
    const unsigned lane = threadIdx.x % 32u, warp = threadIdx.x / 32u;
    unsigned long long* const own = waiting + warp * ROOM;
    top.own = ga_top_meet<false>(top.own, lane < top.many ? own[lane] : 0);
    own[lane] = top.own;
    __syncthreads();
    if (warp == 0)
        for (int w = 1; w < WARPS; ++w) top.own = ga_top_meet<true>(top.own, waiting[w * ROOM + 31u - lane]);
    return top.own;
}
