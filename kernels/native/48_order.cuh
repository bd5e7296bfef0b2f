// Rows in order, and their largest elements. A row is N elements that are STEP apart.
//
// Elements are compared as unsigned integers, their keys. Equal elements keep their order.

//@ ga_ordinal
// An integer that orders as an element does: by value, with all zeros and all nans equal and nan last, or in TOTAL order,
// where -nan is first, -0.0 is before 0.0, and nan is last.
template <bool TOTAL, class T> GA_INLINE auto ga_ordinal(T x) {
    if constexpr (__is_same(T, float)) {
        const unsigned u = __float_as_uint(TOTAL ? x : x + 0.0f), key = u ^ ((unsigned)((int)u >> 31) | 0x80000000u);
        return TOTAL || x == x ? key : ~0u;
    } else if constexpr (__is_same(T, double)) {
        const unsigned long long u = (unsigned long long)__double_as_longlong(TOTAL ? x : x + 0.0);
        const unsigned long long key = u ^ ((unsigned long long)((long long)u >> 63) | 1ull << 63);
        return TOTAL || x == x ? key : ~0ull;
    } else if constexpr (__is_class(T)) {
        return ga_ordinal<TOTAL>(ga_value(x));
    } else if constexpr (sizeof(T) == 8) {
        return (unsigned long long)x + ((T)-1 < (T)0 ? 1ull << 63 : 0);
    } else {
        return (unsigned)x + ((T)-1 < (T)0 ? 1u << 31 : 0);
    }
}

//@ ga_placed
// A key, and where its element is.
template <class K> struct ga_placed {
    K key;
    unsigned at;
};

//@ ga_put_in_order
// Short rows: `order` by the keys, which it has the order of. A key goes to the place that is the number of those before it.
template <ga_index N, class K> static inline void ga_put_in_order(const K* GA_ALONE key, unsigned* GA_ALONE order) {
    GA_LOCAL K before[N];
    GA_LOCAL unsigned old[N];
    for (ga_index i = 0; i < N; ++i) before[i] = 0, old[i] = order[i];
    for (ga_index j = 0; j < N; ++j) {
        const K one = key[j];
        for (ga_index i = 0; i <= j; ++i) before[i] += one < key[i];
        for (ga_index i = j + 1; i < N; ++i) before[i] += one <= key[i];
    }
    for (ga_index i = 0; i < N; ++i) order[before[i]] = old[i];
}

//@ ga_sort_by_digits
// By the lowest BITS bits, then by the next ones, until all are in order, to and fro between two arrays: where they are at last.
template <unsigned BITS, class K>
__attribute__((noinline)) static ga_placed<K>* ga_sort_by_digits(ga_placed<K>* from, ga_placed<K>* to, ga_index n) {
    constexpr unsigned DIGITS = (8 * sizeof(K) + BITS - 1) / BITS, MANY = 1u << BITS;
    GA_LOCAL unsigned counts[DIGITS * MANY];
    for (unsigned k = 0; k < DIGITS * MANY; ++k) counts[k] = 0;
    for (ga_index i = 0; i < n; ++i)
        for (unsigned d = 0; d < DIGITS; ++d) ++counts[d * MANY + (from[i].key >> (BITS * d) & (MANY - 1))];
    for (unsigned d = 0; d < DIGITS; ++d) {
        unsigned* const count = counts + d * MANY;
        if (count[from->key >> (BITS * d) & (MANY - 1)] == n) continue;  // they have the same digit
        for (unsigned digit = 0, place = 0; digit < MANY; ++digit) {
            const unsigned many = count[digit];
            count[digit] = place;
            place += many;
        }
        for (ga_index i = 0; i < n; ++i) to[count[from[i].key >> (BITS * d) & (MANY - 1)]++] = from[i];
        ga_placed<K>* const made = to;
        to = from;
        from = made;
    }
    return from;
}

//@ ga_put_in_order_by_digits
// Longer rows.
template <ga_index N, class K>
__attribute__((noinline)) static void ga_put_in_order_by_digits(const K* GA_ALONE key, unsigned* GA_ALONE order) {
    GA_LOCAL ga_placed<K> here[N], there[N];
    for (ga_index i = 0; i < N; ++i) here[i] = {key[i], order[i]};
    const ga_placed<K>* const found = ga_sort_by_digits<8>(here, there, N);
    for (ga_index i = 0; i < N; ++i) order[i] = found[i].at;
}

//@ ga_count_digits ga_place_digits ga_move_digits
// Rows that threads share, in PIECES of CUT elements: each counts its digits, which are BITS from SHIFT on; the counts of a
// row become the places of its digits; each piece moves its elements there.
template <ga_index N, ga_index PIECES, ga_index CUT, int SHIFT, int BITS, class K>
static inline void ga_count_digits(ga_index first, ga_index last, const ga_placed<K>* GA_ALONE from, unsigned* GA_ALONE counts) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index row = task / PIECES, begin = task % PIECES * CUT, end = ga_least(begin + CUT, N);
        unsigned* const count = counts + (task << BITS);
        for (ga_index d = 0; d < 1u << BITS; ++d) count[d] = 0;
        for (ga_index i = begin; i < end; ++i) ++count[from[row * N + i].key >> SHIFT & ((1u << BITS) - 1)];
    }
}
template <ga_index PIECES, int BITS> static inline void ga_place_digits(ga_index first, ga_index last, unsigned* GA_ALONE counts) {
    for (ga_index row = first; row < last; ++row) {
        unsigned* const count = counts + (row * PIECES << BITS);
        unsigned place = 0;
        for (ga_index d = 0; d < 1u << BITS; ++d)
            for (ga_index piece = 0; piece < PIECES; ++piece) {
                const unsigned many = count[(piece << BITS) + d];
                count[(piece << BITS) + d] = place;
                place += many;
            }
    }
}
template <ga_index N, ga_index PIECES, ga_index CUT, int SHIFT, int BITS, class K>
static inline void ga_move_digits(
    ga_index first, ga_index last, const ga_placed<K>* GA_ALONE from, unsigned* GA_ALONE counts, ga_placed<K>* GA_ALONE to) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index row = task / PIECES, begin = task % PIECES * CUT, end = ga_least(begin + CUT, N);
        unsigned* const count = counts + (task << BITS);
        for (ga_index i = begin; i < end; ++i) {
            const ga_placed<K> one = from[row * N + i];
            to[row * N + count[one.key >> SHIFT & ((1u << BITS) - 1)]++] = one;
        }
    }
}

//@ ga_is_smaller
// Whether an element goes before another one does: it is smaller, or equal and further back.
template <class P> GA_INLINE bool ga_is_smaller(P a, P b) { return (a.key < b.key) | ((a.key == b.key) & (a.at > b.at)); }

//@ ga_is_few ga_top_sink ga_top_put ga_top_finish
// The K largest so far: few in order, the largest first; more as a heap, in which no element is smaller than its parent,
// (k - 1) / 2. The first `have` are there; then the smallest makes room.
constexpr bool ga_is_few(ga_index k) { return k <= 16; }
// Replace the first of a heap of this size.
template <ga_index K, class P> static inline void ga_top_sink(P (&top)[K], P one, ga_index many) {
    ga_index k = 0;
    for (ga_index child = 1; child < many; child = 2 * k + 1) {
        child += child + 1 < many && ga_is_smaller(top[child + 1], top[child]);
        if (!ga_is_smaller(top[child], one)) break;
        top[k] = top[child];
        k = child;
    }
    top[k] = one;
}
template <ga_index K, class P> GA_INLINE void ga_top_put(P (&top)[K], P one, ga_index have) {
    if constexpr (ga_is_few(K)) {
        ga_index k = have;
        for (; k > 0 && ga_is_smaller(top[k - 1], one); --k)
            if (k < K) top[k] = top[k - 1];
        if (k < K) top[k] = one;
    } else if (have < K) {
        ga_index k = have;
        for (; k > 0 && ga_is_smaller(one, top[(k - 1) / 2]); k = (k - 1) / 2) top[k] = top[(k - 1) / 2];
        top[k] = one;
    } else if (ga_is_smaller(top[0], one)) {
        ga_top_sink<K>(top, one, K);
    }
}
// All in order, the largest first.
template <ga_index K, class P> GA_INLINE void ga_top_finish(P (&top)[K]) {
    if constexpr (!ga_is_few(K))
        for (ga_index many = K - 1; many > 0; --many) {
            const P smallest = top[0], last = top[many];
            top[many] = smallest;
            ga_top_sink<K>(top, last, many);
        }
}

//@ ga_top_of
// The K largest of elements begin ... end of a row, the largest first, of equal ones the first one first.
template <ga_index K, ga_index STEP, class P, class T>
GA_INLINE void ga_top_of(const T* GA_ALONE x, ga_index begin, ga_index end, P (&top)[K]) {
    constexpr ga_index BLOCK = 32;
    constexpr ga_index SMALLEST = ga_is_few(K) ? K - 1 : 0;
    ga_index j = begin;
    for (ga_index have = 0; have < K; ++have, ++j) ga_top_put<K>(top, P{ga_ordinal<true>(x[j * STEP]), (unsigned)j}, have);
    for (; j < end; j += BLOCK) {
        const ga_index over = ga_least(j + BLOCK, end);
        if (over == j + BLOCK) {
            // Most blocks have none: tested for the whole block together.
            const auto least = top[SMALLEST].key;
            unsigned above = 0;
            for (ga_index l = 0; l < BLOCK; ++l) above |= ga_ordinal<true>(x[(j + l) * STEP]) > least;
            if (!above) continue;
        }
        for (ga_index l = j; l < over; ++l) {
            const auto key = ga_ordinal<true>(x[l * STEP]);
            if (key > top[SMALLEST].key) ga_top_put<K>(top, P{key, (unsigned)l}, K);
        }
    }
    ga_top_finish<K>(top);
}

//@ ga_top_store
// The selected elements, and their positions. In results and operand, the starts of ROWS rows are neighbours.
template <ga_index K, ga_index ROWS, class P, class T>
GA_INLINE void ga_top_store(const P (&top)[K], const T* GA_ALONE x, ga_index row, T* GA_ALONE values, int* GA_ALONE places) {
    const ga_index to = row / ROWS * (K * ROWS) + row % ROWS;
    for (ga_index k = 0; k < K; ++k) {
        values[to + k * ROWS] = x[top[k].at * ROWS];
        places[to + k * ROWS] = (int)top[k].at;
    }
}

//@ ga_top
// The K largest of each row, a row a task.
template <ga_index K, ga_index N, ga_index ROWS, class T>
static inline void ga_top(ga_index first, ga_index last, const T* GA_ALONE in, T* GA_ALONE values, int* GA_ALONE places) {
    for (ga_index row = first; row < last; ++row) {
        const T* const x = in + row / ROWS * (N * ROWS) + row % ROWS;
        ga_placed<decltype(ga_ordinal<true>(*x))> top[K];
        ga_top_of<K, ROWS>(x, 0, N, top);
        ga_top_store<K, ROWS>(top, x, row, values, places);
    }
}

//@ ga_top_pieces ga_top_merge
// The same for rows in PIECES, each a task, whose largest are merged in their order.
template <ga_index K, ga_index N, ga_index ROWS, ga_index PIECES, class T, class P>
static inline void ga_top_pieces(ga_index first, ga_index last, const T* GA_ALONE in, P* GA_ALONE part) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index row = task / PIECES, piece = task % PIECES;
        GA_LOCAL P top[K];
        ga_top_of<K, ROWS>(in + row / ROWS * (N * ROWS) + row % ROWS, N * piece / PIECES, N * (piece + 1) / PIECES, top);
        for (ga_index k = 0; k < K; ++k) part[task * K + k] = top[k];
    }
}
template <ga_index K, ga_index N, ga_index ROWS, ga_index PIECES, class T, class P>
static inline void ga_top_merge(
    ga_index first, ga_index last, const P* GA_ALONE part, const T* GA_ALONE in, T* GA_ALONE values, int* GA_ALONE places) {
    for (ga_index row = first; row < last; ++row) {
        GA_LOCAL P top[K];
        for (ga_index k = 0; k < PIECES * K; ++k) ga_top_put<K>(top, part[row * PIECES * K + k], ga_least(k, K));
        ga_top_finish<K>(top);
        ga_top_store<K, ROWS>(top, in + row / ROWS * (N * ROWS) + row % ROWS, row, values, places);
    }
}
