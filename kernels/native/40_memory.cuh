// Data movement: transposed squares, and stores that bypass the cache.

//@ ga_turn
// to[i][j] = from[j][i] for i < n, j < m, where neighbours are along j in `to` and along i in `from`; rows are `across`
// and `along` elements apart. Squares of 8 x 8 are transposed in registers: pairs, then pairs of pairs, then halves are
// exchanged.
template <class T> struct ga_turned {
    typedef T moved;
    enum { SIDE = 1 };
};
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
template <class M> struct ga_squares {
    typedef M moved;
    enum { SIDE = 8 };
    typedef M row __attribute__((vector_size(8 * sizeof(M)), aligned(sizeof(M)), may_alias));
    static __forceinline__ void turn(M* to, long long across, const M* from, long long along) {
        GA_LOCAL row r[8], q[8];
        for (int k = 0; k < 8; ++k) r[k] = *(const row*)(from + k * along);
        for (int k = 0; k < 8; k += 2) {
            q[k] = __builtin_shufflevector(r[k], r[k + 1], 0, 8, 2, 10, 4, 12, 6, 14);
            q[k + 1] = __builtin_shufflevector(r[k], r[k + 1], 1, 9, 3, 11, 5, 13, 7, 15);
        }
        for (int k = 0; k < 8; ++k) {
            if (k & 2) continue;
            r[k] = __builtin_shufflevector(q[k], q[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[k + 2] = __builtin_shufflevector(q[k], q[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
        for (int k = 0; k < 4; ++k) {
            q[k] = __builtin_shufflevector(r[k], r[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
            q[k + 4] = __builtin_shufflevector(r[k], r[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
        }
        for (int k = 0; k < 8; ++k) *(row*)(to + k * across) = q[k];
    }
};
template <> struct ga_turned<float> : ga_squares<float> {};
template <> struct ga_turned<double> : ga_squares<double> {};
template <> struct ga_turned<int> : ga_squares<int> {};
template <> struct ga_turned<unsigned> : ga_squares<unsigned> {};
template <> struct ga_turned<long long> : ga_squares<long long> {};
template <> struct ga_turned<unsigned long long> : ga_squares<unsigned long long> {};
template <> struct ga_turned<short> : ga_squares<short> {};
template <> struct ga_turned<unsigned short> : ga_squares<unsigned short> {};
#endif
#endif
template <class T>
static inline void ga_turn(
    T* GA_ALONE to, long long across, const T* GA_ALONE from, long long along, long long n, long long m) {
    long long j = 0;
    if constexpr (ga_turned<T>::SIDE == 8)
        for (; j + 8 <= m; j += 8) {
            // Asked for early: lines of rows further on, which may be those of the next tile. CPUs do not foresee such steps.
            for (long long k = j + 64; k < j + 72; ++k)
                for (long long b = 0; b < n; b += 64 / sizeof(T)) __builtin_prefetch(from + k * along + b, 0, 2);
            long long i = 0;
            for (; i + 8 <= n; i += 8) ga_turned<T>::turn(to + i * across + j, across, from + j * along + i, along);
            for (; i < n; ++i)
                for (long long k = j; k < j + 8; ++k) to[i * across + k] = from[k * along + i];
        }
    for (; j < m; ++j)
        for (long long i = 0; i < n; ++i) to[i * across + j] = from[j * along + i];
}

//@ ga_stream
// Store n elements past the cache, for results that do not fit into it: lines that are stored whole need not be read before.
template <class T> static inline void ga_stream(T* GA_ALONE to, const T* GA_ALONE from, ga_index n) {
    ga_index i = 0;
#ifdef __SSE2__
#if defined(__AVX512F__)
    typedef float vector __attribute__((vector_size(64), aligned(1), may_alias));
#define GA_STORE_PAST(to, value) __builtin_ia32_movntps512((float*)(to), value)
#elif defined(__AVX__)
    typedef float vector __attribute__((vector_size(32), aligned(1), may_alias));
#define GA_STORE_PAST(to, value) __builtin_ia32_movntps256((float*)(to), value)
#else
    typedef float vector __attribute__((vector_size(16), aligned(1), may_alias));
#define GA_STORE_PAST(to, value) __builtin_ia32_movntps((float*)(to), value)
#endif
#ifdef __clang__
#undef GA_STORE_PAST
#define GA_STORE_PAST(to, value) __builtin_nontemporal_store(value, (vector_aligned*)(to))
    typedef float vector_aligned __attribute__((vector_size(sizeof(vector)), may_alias));
#endif
    const ga_index lanes = sizeof(vector) / sizeof(T);
    for (; i < n && (ga_index)(to + i) % 64; ++i) to[i] = from[i];
    for (; i + lanes <= n; i += lanes) GA_STORE_PAST(to + i, *(const vector*)(from + i));
#undef GA_STORE_PAST
#endif
    for (; i < n; ++i) to[i] = from[i];
}

//@ ga_streamed
// Make stores that bypassed the cache visible to other threads.
static inline void ga_streamed() {
#ifdef __SSE2__
    __builtin_ia32_sfence();
#endif
}

//@ ga_fetch
// Prefetch the line of an address that will be read soon. The address need not be valid.
template <class T> GA_INLINE void ga_fetch(const T* place) { __builtin_prefetch(place, 0, 2); }
