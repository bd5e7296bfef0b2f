// The largest elements of a row, with their positions.

//@ ga_ranked
// An integer that orders as an element does, and its position, as one number: of equal elements the first is largest.
GA_INLINE unsigned long long ga_ranked(unsigned order, unsigned at) { return (unsigned long long)order << 32 | ~at; }

//@ ga_top_take
// One more number for the K largest so far, the largest first: each place takes what moves down, the new one, or stays.
template <int K> GA_INLINE void ga_top_take(unsigned long long (&top)[K], unsigned long long x) {
    if (x <= top[K - 1]) return;
#pragma unroll
    for (int k = K - 1; k > 0; --k) top[k] = x > top[k - 1] ? top[k - 1] : x > top[k] ? x : top[k];
    top[0] = x > top[0] ? x : top[0];
}

//@ ga_top_meet
// The lists of LANES lanes become one, which all of them have. K is a power of two.
template <int LANES, int K> GA_INLINE void ga_top_meet(unsigned long long (&top)[K]) {
#pragma unroll
    for (int o = LANES / 2; o > 0; o >>= 1) {
        unsigned long long other[K];
#pragma unroll
        for (int k = 0; k < K; ++k) other[k] = __shfl_xor_sync(0xffffffffu, top[k], o);
        // The largest of both rise and then fall: log K steps put them in order.
#pragma unroll
        for (int k = 0; k < K; ++k) top[k] = top[k] > other[K - 1 - k] ? top[k] : other[K - 1 - k];
#pragma unroll
        for (int apart = K / 2; apart > 0; apart /= 2)
#pragma unroll
            for (int k = 0; k < K; ++k)
                if ((k & apart) == 0) {
                    const unsigned long long a = top[k], b = top[k + apart];
                    top[k] = a > b ? a : b;
                    top[k + apart] = a > b ? b : a;
                }
    }
}

//@ ga_top_block
// The lists of all threads of a block become one, the first K numbers of `part`, which has K for each warp.
template <int WARPS, int K> GA_INLINE void ga_top_block(unsigned long long (&top)[K], unsigned long long* part) {
    ga_top_meet<32>(top);
    const unsigned lane = threadIdx.x % 32u, warp = threadIdx.x / 32u;
    if (lane == 0)
#pragma unroll
        for (int k = 0; k < K; ++k) part[warp * K + k] = top[k];
    __syncthreads();
    if (warp == 0) {
#pragma unroll
        for (int k = 0; k < K; ++k) top[k] = lane < WARPS ? part[lane * K + k] : 0;
        ga_top_meet<WARPS>(top);
        __syncwarp();
        if (lane == 0)
#pragma unroll
            for (int k = 0; k < K; ++k) part[k] = top[k];
    }
    __syncthreads();
}
