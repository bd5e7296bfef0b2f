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

//@ ga_argmax_next ga_argmin_next
// The same if b comes after all elements of a: it is taken if it is the first, or larger, or not comparable, as nan; and
// nothing replaces a nan. No two places are compared.
template <class T> GA_INLINE ga_arg<T> ga_argmax_next(ga_arg<T> a, ga_arg<T> b) {
    const bool take = ((unsigned)(a.at >> 32) == ~0u) | (!(b.value <= a.value) & (a.value == a.value));
    return {take ? b.value : a.value, take ? b.at : a.at};
}
template <class T> GA_INLINE ga_arg<T> ga_argmin_next(ga_arg<T> a, ga_arg<T> b) {
    const bool take = ((unsigned)(a.at >> 32) == ~0u) | (!(b.value >= a.value) & (a.value == a.value));
    return {take ? b.value : a.value, take ? b.at : a.at};
}

//@ ga_by_words
// Apply `f` to each 4-byte word of a value: shuffles take numbers, and this is how structs pass them.
template <class T, class F> GA_INLINE T ga_by_words(T v, F f) {
    union {
        T value;
        unsigned words[(sizeof(T) + 3) / 4];
    } both;
    both.value = v;
#pragma unroll
    for (unsigned k = 0; k < (sizeof(T) + 3) / 4; ++k) both.words[k] = f(both.words[k]);
    return both.value;
}

//@ ga_shuffle
// The value of the lane whose number is this lane's xor `o`.
template <class T> GA_INLINE T ga_shuffle(T v, int o) {
    if constexpr (__is_class(T)) return ga_by_words(v, [o](unsigned w) { return __shfl_xor_sync(0xffffffffu, w, o); });
    else return (T)__shfl_xor_sync(0xffffffffu, v, o);
}

//@ ga_shuffle_arg if ga_shuffle ga_arg
template <class T> GA_INLINE ga_arg<T> ga_shuffle(ga_arg<T> v, int o) {
    return {ga_shuffle(v.value, o), ga_shuffle(v.at, o)};
}

//@ ga_warp_reduce
// Every lane gets the value merged over its group of LANES, in the same order in every run: over every ACROSS-th of them.
template <int LANES, int ACROSS = 1, class T, class Merge> GA_INLINE T ga_warp_reduce(T v, Merge merge) {
#pragma unroll
    for (int o = LANES / 2; o >= ACROSS; o >>= 1) v = merge(v, ga_shuffle(v, o));
    return v;
}

//@ ga_block_reduce
// Every thread gets the value merged over the block, or over its every ACROSS-th thread; `part` holds ACROSS values per warp.
template <int WARPS, int ACROSS = 1, class T, class Merge> GA_INLINE T ga_block_reduce(T v, T* part, Merge merge) {
    const unsigned lane = threadIdx.x % 32u, across = threadIdx.x % ACROSS;
    v = ga_warp_reduce<32, ACROSS>(v, merge);
    if (lane < ACROSS) part[threadIdx.x / 32u * ACROSS + lane] = v;
    __syncthreads();
    v = part[across];
    for (int w = 1; w < WARPS; ++w) v = merge(v, part[w * ACROSS + across]);
    // Before `part` is written again.
    __syncthreads();
    return v;
}

//@ ga_block_reduce_each
// The same of several values at once, which wait for one another once; `part` holds one of each per warp.
template <int WARPS, class T, class Merge, class... U> GA_INLINE void ga_block_reduce_each(T* part, Merge merge, U&... values) {
    constexpr int MANY = sizeof...(U);
    T all[] = {values...};
#pragma unroll
    for (int k = 0; k < MANY; ++k) all[k] = ga_warp_reduce<32>(all[k], merge);
#pragma unroll
    for (int k = 0; k < MANY; ++k)
        if (threadIdx.x % 32u == 0) part[k * WARPS + threadIdx.x / 32u] = all[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < MANY; ++k) {
        all[k] = part[k * WARPS];
        for (int w = 1; w < WARPS; ++w) all[k] = merge(all[k], part[k * WARPS + w]);
    }
    __syncthreads();
    const T* next = all;
    ((values = *next++), ...);
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
    if constexpr (__is_class(T))
        return ga_by_words(v, [by](unsigned w) { return __shfl_up_sync(0xffffffffu, w, by, LANES); });
    else return (T)__shfl_up_sync(0xffffffffu, v, by, LANES);
}

//@ ga_shuffle_last
// The value of the last lane of a group of LANES.
template <int LANES, class T> GA_INLINE T ga_shuffle_last(T v) {
    if constexpr (__is_class(T))
        return ga_by_words(v, [](unsigned w) { return __shfl_sync(0xffffffffu, w, LANES - 1, LANES); });
    else return (T)__shfl_sync(0xffffffffu, v, LANES - 1, LANES);
}

//@ ga_peers ga_leads
// The lanes of a warp that have the same place, a bit each; none for a lane without one. The first of them leads.
GA_INLINE unsigned ga_peers(unsigned place, bool any) {
    const unsigned peers = __match_any_sync(0xffffffffu, place);
    return any ? peers : 0u;
}
GA_INLINE bool ga_leads(unsigned peers) { return (peers & (2u << threadIdx.x % 32u) - 1u) == 1u << threadIdx.x % 32u; }

//@ ga_merge_peers
// The lane that leads gets the values of its peers, merged in the order of lanes: of neighbours first, then of pairs.
template <class T, class Merge> GA_INLINE T ga_merge_peers(T v, unsigned peers, Merge merge) {
    const unsigned lane = threadIdx.x % 32u;
    unsigned rank = __popc(peers & (1u << lane) - 1u);
    peers &= 0xfffffffeu << lane;
    while (__any_sync(0xffffffffu, peers != 0u)) {
        const T next = __shfl_sync(0xffffffffu, v, (__ffs((int)peers) - 1) & 31);
        if (peers != 0u) v = merge(v, next);
        // Lanes of an odd rank are done: the one before each has its value.
        peers &= __ballot_sync(0xffffffffu, rank % 2u == 0u);
        rank /= 2u;
    }
    return v;
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

//@ ga_scan_of_warps
// The values of the warps before this one, merged: each has one. `whole` is that of all of them; `part` holds them.
template <int WARPS, class T, class Merge> GA_INLINE T ga_scan_of_warps(T own, T* part, T nothing, T& whole, Merge merge) {
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
    return ahead;
}

//@ ga_block_scan
// The values before this thread, merged, and that of all threads of the block.
template <int WARPS, class T, class Merge>
GA_INLINE T ga_block_scan(T v, T* part, T nothing, T& whole, Merge merge) {
    T own;
    const T in_warp = ga_warp_scan<32>(v, nothing, own, merge);
    return merge(ga_scan_of_warps<WARPS>(own, part, nothing, whole, merge), in_warp);
}

//@ ga_column_scan
// The values before this thread's, merged, of the DEEP threads of its column, of which a block has ACROSS; `whole` is that
// of all of them.
template <int DEEP, int ACROSS, class T, class Merge>
GA_INLINE T ga_column_scan(T v, T* part, T nothing, T& whole, Merge merge) {
    part[threadIdx.x] = v;
    __syncthreads();
    const unsigned column = threadIdx.x % ACROSS, own = threadIdx.x / ACROSS;
    T ahead = nothing;
    whole = nothing;
    for (unsigned d = 0; d < DEEP; ++d) {
        if (d == own) ahead = whole;
        whole = merge(whole, part[d * ACROSS + column]);
    }
    __syncthreads();
    return ahead;
}

//@ ga_warp_in_order
// Lane 0 gets the values of all lanes, merged in their order.
template <class T, class Merge> GA_INLINE T ga_warp_in_order(T v, Merge merge) {
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) v = merge(v, ga_shuffle(v, o));
    return v;
}

//@ ga_tell_word ga_tell ga_hear_word ga_hear
// How a block publishes values to others, and how they wait for them: 4 bytes of a value and a flag are one word,
// written and read as a whole, so that neither needs a fence. The flag is the number of the launch, because words of an
// earlier launch are not cleared. The words of a value are `apart`.
GA_INLINE void ga_tell_word(unsigned long long* p, unsigned long long word) {
#ifndef GA_HOST
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(word) : "memory");
#else
    atomicExch(p, word);
#endif
}
template <class T> GA_INLINE void ga_tell(unsigned long long* p, unsigned apart, unsigned launch, T v) {
    union {
        T value;
        unsigned words[(sizeof(T) + 3) / 4];
    } told;
    told.words[0] = 0;
    told.value = v;
#pragma unroll
    for (unsigned k = 0; k < (sizeof(T) + 3) / 4; ++k)
        ga_tell_word(p + (unsigned long long)k * apart, (unsigned long long)launch << 32 | told.words[k]);
}
GA_INLINE unsigned ga_hear_word(unsigned long long* p, unsigned launch) {
    unsigned long long word;
    do {
#ifndef GA_HOST
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(__cvta_generic_to_global(p)) : "memory");
#else
        word = atomicAdd(p, 0ull);
#endif
    } while ((unsigned)(word >> 32) != launch);
    return (unsigned)word;
}
template <class T> GA_INLINE T ga_hear(unsigned long long* p, unsigned apart, unsigned launch) {
    union {
        T value;
        unsigned words[(sizeof(T) + 3) / 4];
    } told;
#pragma unroll
    for (unsigned k = 0; k < (sizeof(T) + 3) / 4; ++k) told.words[k] = ga_hear_word(p + (unsigned long long)k * apart, launch);
    return told.value;
}

//@ ga_look_back
// In the first warp of a block, lane 0 gets the merge of the tiles before its own. A tile reads the totals of those of
// its group of 32, of the groups of its 32 groups, and one running total: which ones depends only on its number, so
// every run gives the same bits. Tiles are numbered as their blocks begin, so a block never waits for one that has not
// begun.
template <class T, class Merge>
GA_INLINE T ga_look_back(
    unsigned long long* words, unsigned apart, unsigned launch, unsigned tiles, unsigned tile, T own, T nothing, Merge merge) {
    const unsigned lane = threadIdx.x % 32u, group = tile / 32u, super = group / 32u;
    unsigned long long* const groups = words + tiles;
    unsigned long long* const supers = groups + (tiles + 31u) / 32u;
    if (lane == 0) ga_tell(words + tile, apart, launch, own);
    const T near = ga_warp_in_order(
        lane < tile % 32u ? ga_hear<T>(words + group * 32u + lane, apart, launch) : nothing, merge);
    if (lane == 0 && tile % 32u == 31u) ga_tell(groups + group, apart, launch, merge(near, own));
    const T far = ga_warp_in_order(
        lane < group % 32u ? ga_hear<T>(groups + super * 32u + lane, apart, launch) : nothing, merge);
    if (lane != 0) return nothing;
    const T start = super == 0 ? far : merge(ga_hear<T>(supers + super - 1u, apart, launch), far);
    if (tile % 1024u == 1023u) ga_tell(supers + super, apart, launch, merge(start, merge(near, own)));
    return merge(start, near);
}

//@ ga_look_back_down
// The same down columns: each thread gets the merge of the tiles before its own in its column, of which there are
// `columns` in all; `part` holds a value for each thread. The threads of a column divide the tiles that it reads among
// themselves.
template <int DEEP, int ACROSS, class T, class Merge>
GA_INLINE T ga_look_back_down(
    unsigned long long* words, unsigned apart, unsigned launch, unsigned columns, unsigned column, unsigned tiles, unsigned tile, T own,
    T* part, T nothing, Merge merge) {
    const unsigned depth = threadIdx.x / ACROSS, group = tile / 32u, super = group / 32u;
    const bool tells = depth == 0 && column < columns, hears = column < columns;
    unsigned long long* const first = words + column;
    unsigned long long* const groups = first + (unsigned long long)tiles * columns;
    unsigned long long* const supers = groups + (unsigned long long)((tiles + 31u) / 32u) * columns;
    if (tells) ga_tell(first + (unsigned long long)tile * columns, apart, launch, own);
    T near = nothing, far = nothing, whole = nothing;
    const unsigned each = (32u + DEEP - 1u) / DEEP;
    for (unsigned k = depth * each; hears && k < depth * each + each && k < tile % 32u; ++k)
        near = merge(near, ga_hear<T>(first + (group * 32ull + k) * columns, apart, launch));
    ga_column_scan<DEEP, ACROSS>(near, part, nothing, whole, merge);
    near = whole;
    if (tells && tile % 32u == 31u) ga_tell(groups + (unsigned long long)group * columns, apart, launch, merge(near, own));
    for (unsigned k = depth * each; hears && k < depth * each + each && k < group % 32u; ++k)
        far = merge(far, ga_hear<T>(groups + (super * 32ull + k) * columns, apart, launch));
    ga_column_scan<DEEP, ACROSS>(far, part, nothing, whole, merge);
    const T start = super == 0 || !hears ? whole : merge(ga_hear<T>(supers + (super - 1ull) * columns, apart, launch), whole);
    if (tells && tile % 1024u == 1023u)
        ga_tell(supers + (unsigned long long)super * columns, apart, launch, merge(start, merge(near, own)));
    return merge(start, near);
}

//@ GA_ROOM GA_ROOM_BYTES ga_room_bytes
// Shared memory that a launch sets aside: it requests BYTES, and a GPU may have less.
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
