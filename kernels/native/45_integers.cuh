// Products of matrices of integers, which no library has. Their sums wrap, so that the order of additions is free: both operands
// are copied to where instructions that multiply several narrow numbers, and add the products, find them side by side.

//@ ga_wholes ga_pairs ga_bytes GA_REGISTER
// How numbers are multiplied: GROUP neighbours along the sum at a time, SUMS sums in a register (`sums`). `step` adds to each sum
// the products of a group of the left operand, the same for all, with its own group of the right one. Numbers on the right are
// SHIFT larger in the copy.
#if defined(__AVX512VNNI__)
#define GA_REGISTER 64
#elif defined(__AVX2__)
#define GA_REGISTER 32
#else
#define GA_REGISTER 16
#endif
template <class T> struct ga_wholes {
    typedef T left, right, sum;
    typedef T sums __attribute__((vector_size(GA_REGISTER), may_alias));
    enum : int { GROUP = 1, SUMS = GA_REGISTER / sizeof(T), SHIFT = 0 };
    static __forceinline__ sums step(sums sum, sums x, sums y) { return sum + x * y; }
};
// 16-bit numbers: two at a time.
struct ga_pairs {
    typedef short left, right;
    typedef int sum;
    typedef int sums __attribute__((vector_size(GA_REGISTER), may_alias));
    enum : int { GROUP = 2, SUMS = GA_REGISTER / 4, SHIFT = 0 };
    static __forceinline__ sums step(sums sum, sums x, sums y) {
        typedef int words __attribute__((vector_size(GA_REGISTER)));
        typedef short halves __attribute__((vector_size(GA_REGISTER)));
#if defined(__AVX512VNNI__) && defined(__clang__)
        return (sums)__builtin_ia32_vpdpwssd512((words)sum, (words)x, (words)y);
#elif defined(__AVX512VNNI__)
        return (sums)__builtin_ia32_vpdpwssd_v16si((words)sum, (words)x, (words)y);
#elif defined(__AVX2__)
        return sum + (sums)__builtin_ia32_pmaddwd256((halves)x, (halves)y);
#elif defined(__SSE2__)
        return sum + (sums)__builtin_ia32_pmaddwd128((halves)x, (halves)y);
#else
        return sum + (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
#endif
    }
};
// Bytes: four at a time where there is an instruction for it, which takes unsigned ones on one side and signed ones on the other.
#if defined(__AVX512VNNI__)
template <class X, class Y> struct ga_bytes;
template <class X, class R, int BY> struct ga_fours {
    typedef X left;
    typedef R right;
    typedef int sum;
    typedef int sums __attribute__((vector_size(64), may_alias));
    enum : int { GROUP = 4, SUMS = 16, SHIFT = BY };
    static __forceinline__ sums step(sums sum, sums x, sums y) {
        typedef int words __attribute__((vector_size(64)));
        const words one = (words)((X)-1 < 0 ? y : x), two = (words)((X)-1 < 0 ? x : y);  // the unsigned ones, the signed ones
#if defined(__clang__)
        return (sums)__builtin_ia32_vpdpbusd512((words)sum, one, two);
#else
        return (sums)__builtin_ia32_vpdpbusd_v16si((words)sum, one, two);
#endif
    }
};
template <> struct ga_bytes<signed char, signed char> : ga_fours<signed char, unsigned char, 128> {};
template <> struct ga_bytes<signed char, unsigned char> : ga_fours<signed char, unsigned char, 0> {};
template <> struct ga_bytes<unsigned char, signed char> : ga_fours<unsigned char, signed char, 0> {};
template <> struct ga_bytes<unsigned char, unsigned char> : ga_fours<unsigned char, signed char, -128> {};
#else
template <class X, class Y> struct ga_bytes : ga_pairs {};
#endif

//@ ga_packed
// The copies of the operands of a product of M x K by K x N. Numbers along a sum are in groups, the last one filled up with zeros.
// Columns on the right are in panels of as many as two registers have sums.
template <class P, ga_index M, ga_index N, ga_index K> struct ga_packed {
    enum : ga_index {
        groups = (K + P::GROUP - 1) / P::GROUP,
        steps = groups * P::GROUP,
        row = steps + sizeof(typename P::sum) / sizeof(typename P::left),  // followed by the initial values of its sums
        registers = N <= P::SUMS ? 1 : 2,
        columns = registers * P::SUMS,
        panels = (N + columns - 1) / columns,
        panel = steps * columns,
    };
};

//@ ga_pack_left
// The rows on the left one after the other. Tasks are R rows.
template <class P, class X, ga_index R, ga_index M, ga_index N, ga_index K, ga_index XM, ga_index XK, class... B>
static void ga_pack_left(ga_index first, ga_index last, const X* GA_ALONE x, char* GA_ALONE to) {
    typedef ga_packed<P, M, N, K> sizes;
    constexpr ga_index blocks = (M + R - 1) / R;
    for (ga_index task = first; task < last; ++task) {
        const ga_index m = task % blocks * R, rows = ga_least(R, M - m);
        const X* const from = x + ga_offsets_along<B...>(task / blocks).x + m * XM;
        typename P::left* const own = (typename P::left*)to + (task / blocks * M + m) * sizes::row;
        // In the order of the reads.
        if constexpr (XM < XK) {
            for (ga_index k = 0; k < K; ++k)
                for (ga_index r = 0; r < rows; ++r) own[r * sizes::row + k] = (typename P::left)from[r * XM + k * XK];
        } else {
            for (ga_index r = 0; r < rows; ++r)
                for (ga_index k = 0; k < K; ++k) own[r * sizes::row + k] = (typename P::left)from[r * XM + k * XK];
        }
        for (ga_index r = 0; r < rows; ++r) {
            typename P::left* const row = own + r * sizes::row;
            for (ga_index k = K; k < sizes::steps; ++k) row[k] = 0;
            typename P::sum begin = 0;
            if constexpr (P::SHIFT != 0)
                for (ga_index k = 0; k < K; ++k) begin -= row[k] * P::SHIFT;
            __builtin_memcpy(row + sizes::steps, &begin, sizeof begin);
        }
    }
}

//@ ga_pack_right
// The panels on the right; in each the columns have their first groups one after the other, then their second ones. Tasks are
// W columns, whole panels.
template <class P, class Y, ga_index W, ga_index N, ga_index K, ga_index YN, ga_index YK, class... B>
static void ga_pack_right(ga_index first, ga_index last, const Y* GA_ALONE y, char* GA_ALONE to) {
    typedef ga_packed<P, 1, N, K> sizes;
    typedef typename P::right number;
    constexpr ga_index C = sizes::columns, G = P::GROUP, S = 32;  // steps at a time
    constexpr ga_index blocks = (N + W - 1) / W, most = W / C;  // panels of a block
    GA_LOCAL number some[C * S];
    for (ga_index each = first * most; each < last * most; ++each) {
        const ga_index batch = each / (blocks * most), panel = each % (blocks * most), n = panel * C;
        if (n >= N) continue;
        const ga_index count = ga_least(C, N - n);
        const Y* const from = y + ga_offsets_along<B...>(batch).y + n * YN;
        number* const own = (number*)to + (batch * sizes::panels + panel) * sizes::panel;
        // Columns and steps that are not there are zeros.
        const bool whole = count == C && sizes::steps % S == 0 && sizes::steps == K;
        for (ga_index i = 0; !whole && i < C * S; ++i) some[i] = 0;
        for (ga_index k = 0; k < sizes::steps; k += S) {
            const ga_index steps = ga_least(S, K - k);
            if (steps < S)
                for (ga_index i = 0; i < C * S; ++i) some[i] = 0;
            if constexpr (YN == 1) {
                // Rows: a group goes from one row to the next.
                for (ga_index s = 0; s < steps; ++s)
                    for (ga_index c = 0; c < count; ++c) some[s * C + c] = (number)(from[(k + s) * YK + c] + P::SHIFT);
                for (ga_index s = 0; s < ga_least(S, sizes::steps - k); s += G)
                    for (ga_index c = 0; c < C; ++c)
                        for (ga_index g = 0; g < G; ++g) own[(k + s) * C + c * G + g] = some[(s + g) * C + c];
            } else {
                // Columns: groups are moved unchanged.
                for (ga_index c = 0; c < count; ++c)
                    for (ga_index s = 0; s < steps; ++s) some[c * S + s] = (number)(from[c * YN + (k + s) * YK] + P::SHIFT);
                for (ga_index s = 0; s < ga_least(S, sizes::steps - k); s += G)
                    for (ga_index c = 0; c < C; ++c)
                        __builtin_memcpy(own + (k + s) * C + c * G, some + c * S + s, G * sizeof(number));
            }
        }
    }
}

//@ ga_integer_product
// R rows by a panel, of which `count` columns are there. Rows of the result are OM apart.
template <class P, class O, ga_index R, ga_index M, ga_index N, ga_index K, ga_index OM>
GA_INLINE void ga_packed_tile(const typename P::left* x, const typename P::right* y, O* GA_ALONE o, ga_index count) {
    typedef ga_packed<P, M, N, K> sizes;
    typedef typename P::sums sums;
    // In memory: a group on the left as one number, groups on the right.
    typedef typename P::sum group __attribute__((aligned(sizeof(typename P::left)), may_alias));
    typedef sums several __attribute__((aligned(sizeof(typename P::sum)), may_alias));
    constexpr ga_index V = sizes::registers, S = P::SUMS;
    GA_LOCAL sums part[R][V];
    for (ga_index r = 0; r < R; ++r)
        for (ga_index v = 0; v < V; ++v) part[r][v] = sums{} + *(const group*)(x + r * sizes::row + sizes::steps);
    for (ga_index k = 0; k < sizes::groups; ++k)
        for (ga_index r = 0; r < R; ++r) {
            const sums left = sums{} + *(const group*)(x + r * sizes::row + k * P::GROUP);
            for (ga_index v = 0; v < V; ++v) part[r][v] = P::step(part[r][v], left, ((const several*)y)[k * V + v]);
        }
    for (ga_index r = 0; r < R; ++r)
        if (count == sizes::columns) {
            // Sums as they are leave in whole registers.
            if constexpr (sizeof(O) == sizeof(typename P::sum))
                for (ga_index v = 0; v < V; ++v) *(several*)(o + r * OM + v * S) = part[r][v];
            else
                for (ga_index c = 0; c < V * S; ++c) o[r * OM + c] = (O)part[r][c / S][c % S];
        } else {
            for (ga_index c = 0; c < count; ++c) o[r * OM + c] = (O)part[r][c / S][c % S];
        }
}
// The sums of PM rows by PN columns, whole panels: a task.
template <class P, class O, ga_index PM, ga_index PN, ga_index M, ga_index N, ga_index K, ga_index OM, class... B>
static void ga_integer_product(ga_index first, ga_index last, const char* GA_ALONE x, const char* GA_ALONE y, O* GA_ALONE o) {
    typedef ga_packed<P, M, N, K> sizes;
    constexpr ga_index R = GA_REGISTER == 64 ? 8 : 4, C = sizes::columns;
    constexpr ga_index down = (M + PM - 1) / PM, across = (N + PN - 1) / PN;
    for (ga_index task = first; task < last; ++task) {
        const ga_index batch = task / (down * across), top = task / across % down * PM, left = task % across * PN;
        const ga_index bottom = ga_least(top + PM, M), right = ga_least(left + PN, N);
        O* const out = o + ga_offsets_along<B...>(batch).o;
        for (ga_index n = left; n < right; n += C) {
            const typename P::right* const panel = (const typename P::right*)y + (batch * sizes::panels + n / C) * sizes::panel;
            const typename P::left* const rows = (const typename P::left*)x + batch * M * sizes::row;
            const ga_index count = ga_least(C, N - n);
            ga_index m = top;
            for (; m + R <= bottom; m += R)
                ga_packed_tile<P, O, R, M, N, K, OM>(rows + m * sizes::row, panel, out + m * OM + n, count);
            for (; m < bottom; ++m) ga_packed_tile<P, O, 1, M, N, K, OM>(rows + m * sizes::row, panel, out + m * OM + n, count);
        }
    }
}
