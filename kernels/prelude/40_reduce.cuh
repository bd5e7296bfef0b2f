// Reductions over a warp and a block, and partial results between blocks.

//@ ga_arg
// A value and its position.
template <class T> struct ga_arg {
    T value;
    unsigned long long at;
};

//@ ga_argmax ga_argmin
// The first of equal values; nan before everything.
template <class T> GA_INLINE ga_arg<T> ga_argmax(ga_arg<T> a, ga_arg<T> b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value) return a.value > b.value ? a : b;
    return a.at < b.at ? a : b;
}
template <class T> GA_INLINE ga_arg<T> ga_argmin(ga_arg<T> a, ga_arg<T> b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value) return a.value < b.value ? a : b;
    return a.at < b.at ? a : b;
}

//@ ga_shuffle
// The value of the lane whose number is this lane's xor `o`.
template <class T> GA_INLINE T ga_shuffle(T v, int o) { return (T)__shfl_xor_sync(0xffffffffu, v, o); }

//@ ga_shuffle_complex if ga_shuffle ga_c64
template <class T> GA_INLINE ga_complex<T> ga_shuffle(ga_complex<T> v, int o) {
    return {ga_shuffle(v.re, o), ga_shuffle(v.im, o)};
}

//@ ga_shuffle_arg if ga_shuffle ga_arg
template <class T> GA_INLINE ga_arg<T> ga_shuffle(ga_arg<T> v, int o) {
    return {ga_shuffle(v.value, o), ga_shuffle(v.at, o)};
}

//@ ga_warp_reduce
// Every lane gets the value merged over its group of LANES, in the same order in every run.
template <int LANES, class T, class Merge> GA_INLINE T ga_warp_reduce(T v, Merge merge) {
#pragma unroll
    for (int o = LANES / 2; o > 0; o >>= 1) v = merge(v, ga_shuffle(v, o));
    return v;
}

//@ ga_block_reduce
// Every thread gets the value merged over the block; `part` holds one value per warp.
template <int WARPS, class T, class Merge> GA_INLINE T ga_block_reduce(T v, T* part, Merge merge) {
    v = ga_warp_reduce<32>(v, merge);
    if (threadIdx.x % 32u == 0) part[threadIdx.x / 32u] = v;
    __syncthreads();
    v = part[0];
    for (int w = 1; w < WARPS; ++w) v = merge(v, part[w]);
    // Before `part` is written again.
    __syncthreads();
    return v;
}

//@ ga_column_reduce
// Every thread gets the value merged over the DEEP threads of its column, of which a block has ACROSS: by halves while
// there are many, then one by one from the first.
template <int DEEP, int ACROSS, class T, class Merge> GA_INLINE T ga_column_reduce(T v, T* part, Merge merge) {
    part[threadIdx.x] = v;
    __syncthreads();
    for (unsigned half = DEEP / 2 * ACROSS; half >= 8 * ACROSS; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = merge(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    v = part[threadIdx.x % ACROSS];
    for (unsigned d = 1; d < (DEEP < 8 ? DEEP : 8); ++d) v = merge(v, part[d * ACROSS + threadIdx.x % ACROSS]);
    __syncthreads();
    return v;
}

//@ ga_put ga_get
// Partial results of blocks, SLOT bytes apart; as volatile words, because another block writes them.
template <int SLOT = 16, class T> GA_INLINE void ga_put(unsigned char* work, unsigned block, T v) {
    static_assert(sizeof(T) <= SLOT, "a partial result is larger than its slot");
    union {
        T value;
        unsigned words[SLOT / 4];
    } slot;
    slot.value = v;
    for (unsigned k = 0; k < (sizeof(T) + 3) / 4; ++k) ((volatile unsigned*)(work + (unsigned)SLOT * block))[k] = slot.words[k];
}
template <class T, int SLOT = 16> GA_INLINE T ga_get(unsigned char* work, unsigned block) {
    static_assert(sizeof(T) <= SLOT, "a partial result is larger than its slot");
    union {
        T value;
        unsigned words[SLOT / 4];
    } slot;
    for (unsigned k = 0; k < (sizeof(T) + 3) / 4; ++k) slot.words[k] = ((volatile unsigned*)(work + (unsigned)SLOT * block))[k];
    return slot.value;
}

//@ ga_shuffle_up
// The value of the lane `by` before this one, in groups of LANES; a lane's own value if there is none.
template <int LANES, class T> GA_INLINE T ga_shuffle_up(T v, unsigned by) {
    return (T)__shfl_up_sync(0xffffffffu, v, by, LANES);
}

//@ ga_shuffle_up_complex if ga_shuffle_up ga_c64
template <int LANES, class T> GA_INLINE ga_complex<T> ga_shuffle_up(ga_complex<T> v, unsigned by) {
    return {__shfl_up_sync(0xffffffffu, v.re, by, LANES), __shfl_up_sync(0xffffffffu, v.im, by, LANES)};
}

//@ ga_shuffle_last
// The value of the last lane of a group of LANES.
template <int LANES, class T> GA_INLINE T ga_shuffle_last(T v) {
    return (T)__shfl_sync(0xffffffffu, v, LANES - 1, LANES);
}

//@ ga_shuffle_last_complex if ga_shuffle_last ga_c64
template <int LANES, class T> GA_INLINE ga_complex<T> ga_shuffle_last(ga_complex<T> v) {
    return {__shfl_sync(0xffffffffu, v.re, LANES - 1, LANES), __shfl_sync(0xffffffffu, v.im, LANES - 1, LANES)};
}

//@ ga_warp_scan
// The values before this lane, merged, in groups of LANES; `whole` is that of all lanes.
template <int LANES, class T, class Merge> GA_INLINE T ga_warp_scan(T v, T nothing, T& whole, Merge merge) {
    const unsigned lane = threadIdx.x % LANES;
#pragma unroll
    for (unsigned o = 1; o < LANES; o <<= 1) {
        const T before = ga_shuffle_up<LANES>(v, o);
        if (lane >= o) v = merge(before, v);
    }
    whole = ga_shuffle_last<LANES>(v);
    const T before = ga_shuffle_up<LANES>(v, 1);
    return lane == 0 ? nothing : before;
}

//@ ga_block_scan
// The same for the threads of a block; `part` holds one value per warp.
template <int WARPS, class T, class Merge>
GA_INLINE T ga_block_scan(T v, T* part, T nothing, T& whole, Merge merge) {
    T own;
    const T in_warp = ga_warp_scan<32>(v, nothing, own, merge);
    const unsigned warp = threadIdx.x / 32u;
    if (threadIdx.x % 32u == 0) part[warp] = own;
    __syncthreads();
    T ahead = nothing;
    whole = nothing;
    for (unsigned w = 0; w < WARPS; ++w) {
        if (w == warp) ahead = whole;
        whole = merge(whole, part[w]);
    }
    __syncthreads();
    return merge(ahead, in_warp);
}

//@ ga_tell_word ga_tell ga_hear
// A value of at most 4 bytes that a block tells others, and how they wait for it: a word of 8 bytes, written and read
// whole, so that neither needs a fence. A word of 0 has not been told yet.
GA_INLINE void ga_tell_word(unsigned long long* p, unsigned long long word) {
#ifndef GA_HOST
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(word) : "memory");
#else
    atomicExch(p, word);
#endif
}
template <class T> GA_INLINE void ga_tell(unsigned long long* p, T v) {
    static_assert(sizeof(T) <= 4, "a value and its flag are one word");
    union {
        T value;
        unsigned bits;
    } told;
    told.bits = 0;
    told.value = v;
    ga_tell_word(p, 1ull << 32 | told.bits);
}
template <class T> GA_INLINE T ga_hear(unsigned long long* p) {
    unsigned long long word;
    do {
#ifndef GA_HOST
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(__cvta_generic_to_global(p)) : "memory");
#else
        word = atomicAdd(p, 0ull);
#endif
    } while (!(word >> 32));
    union {
        T value;
        unsigned bits;
    } told;
    told.bits = (unsigned)word;
    return told.value;
}

//@ ga_look_back
// Of the first warp of a block, lane 0 gets what the tiles before its own come to, merged. A tile reads the totals of
// those of its group of 32, of the groups of its 32 groups, and one running total: which it adds depends on its number
// alone, so every run gives the same bits. Tiles are numbered as their blocks begin, so nobody waits for one that has not.
template <class T, class Merge>
GA_INLINE T ga_look_back(unsigned long long* words, unsigned tiles, unsigned tile, T own, T nothing, Merge merge) {
    const unsigned lane = threadIdx.x % 32u, group = tile / 32u, super = group / 32u;
    unsigned long long* const groups = words + tiles;
    unsigned long long* const supers = groups + (tiles + 31u) / 32u;
    if (lane == 0) ga_tell(words + tile, own);
    const T near = ga_warp_reduce<32>(lane < tile % 32u ? ga_hear<T>(words + group * 32u + lane) : nothing, merge);
    if (lane == 0 && tile % 32u == 31u) ga_tell(groups + group, merge(near, own));
    const T far = ga_warp_reduce<32>(lane < group % 32u ? ga_hear<T>(groups + super * 32u + lane) : nothing, merge);
    if (lane != 0) return nothing;
    const T start = super == 0 ? far : merge(ga_hear<T>(supers + super - 1u), far);
    if (tile % 1024u == 1023u) ga_tell(supers + super, merge(start, merge(near, own)));
    return merge(start, near);
}

//@ GA_ROOM GA_ROOM_BYTES ga_room_bytes
// Shared memory that a launch sets aside: BYTES of it are asked for, and a GPU may have less.
#ifndef GA_HOST
#define GA_ROOM(room, BYTES) extern __shared__ __align__(16) unsigned char room[]
static __device__ __forceinline__ unsigned ga_room_bytes() {
    unsigned n;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(n));
    return n;
}
#define GA_ROOM_BYTES(room) ga_room_bytes()
#else
#define GA_ROOM(room, BYTES) __shared__ unsigned char room[BYTES]
#define GA_ROOM_BYTES(room) (unsigned)sizeof room
#endif
