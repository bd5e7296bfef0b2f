// Threefry-2x32 with 20 rounds (Salmon et al., 2011): random words from a key and a counter.

//@ ga_pair
struct ga_pair { unsigned x, y; };

//@ ga_threefry
GA_INLINE ga_pair ga_threefry(unsigned k0, unsigned k1, unsigned x, unsigned y) {
    // The third word makes any two successive injections differ; the constant is the paper's.
    const unsigned key[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
    const int by[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    x += k0;
    y += k1;
#pragma unroll
    for (int group = 0; group < 5; ++group) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int n = by[group % 2 * 4 + r];
            x += y;
            y = (y << n | y >> (32 - n)) ^ x;
        }
        x += key[(group + 1) % 3];
        y += key[(group + 2) % 3] + (unsigned)group + 1u;
    }
    return {x, y};
}

//@ ga_random_pair
// The pair of words that a key (first word in the low half) makes of a 64-bit counter.
GA_INLINE ga_pair ga_random_pair(unsigned long long key, unsigned long long counter) {
    return ga_threefry((unsigned)key, (unsigned)(key >> 32), (unsigned)(counter >> 32), (unsigned)counter);
}

//@ ga_random_bits
// Element i of the partitionable stream, in which every element has its own counter.
template <class T> GA_INLINE T ga_random_bits(unsigned long long key, unsigned long long i) {
    const ga_pair p = ga_random_pair(key, i);
    return sizeof(T) == 8 ? (T)((unsigned long long)p.x << 32 | p.y) : (T)(p.x ^ p.y);
}

//@ ga_random_word
// Word i of the original stream of SIZE words: words i and i + SIZE / 2 are one pair.
template <unsigned SIZE> GA_INLINE unsigned ga_random_word(unsigned long long key, unsigned i) {
    const unsigned half = SIZE / 2u + SIZE % 2u, first = i < half ? i : i - half;
    const unsigned second = SIZE % 2u == 0u || half + first < SIZE ? half + first : 0u;
    const ga_pair p = ga_threefry((unsigned)key, (unsigned)(key >> 32), first, second);
    return i < half ? p.x : p.y;
}

//@ ga_random_old_bits
// Element i of N from the original stream: wide ones of two words far apart, narrow ones cut from one.
template <class T, unsigned N> GA_INLINE T ga_random_old_bits(unsigned long long key, unsigned i) {
    if constexpr (sizeof(T) == 8) {  // both words of a pair
        const ga_pair p = ga_threefry((unsigned)key, (unsigned)(key >> 32), i, N + i);
        return (unsigned long long)p.x << 32 | p.y;
    } else {
        const unsigned a_word = 4u / sizeof(T), words = N / a_word + (N % a_word != 0);
        return (T)(ga_random_word<words>(key, i / a_word) >> i % a_word * 8u * sizeof(T));
    }
}

//@ ga_random_half_bits
// The same for an element of half `u` of an even number of words: a thread that has the elements of both halves
// computes their words, which are a pair, once.
template <class T, unsigned N> GA_INLINE T ga_random_half_bits(unsigned long long key, unsigned i, unsigned u) {
    const unsigned a_word = 4u / sizeof(T), half = N / a_word / 2u, first = (i - u * (N / 2u)) / a_word;
    const ga_pair p = ga_threefry((unsigned)key, (unsigned)(key >> 32), first, half + first);
    return (T)((u == 0u ? p.x : p.y) >> i % a_word * 8u * sizeof(T));
}

//@ ga_key
// Words as a key: two in one integer, four in two.
GA_INLINE unsigned long long ga_key(unsigned a, unsigned b) { return (unsigned long long)b << 32 | a; }
GA_INLINE ga_c128 ga_key(unsigned a, unsigned b, unsigned c, unsigned d) {
    return {__longlong_as_double((long long)ga_key(a, b)), __longlong_as_double((long long)ga_key(c, d))};
}

//@ ga_key4
GA_INLINE ga_c128 ga_key4(unsigned long long first, unsigned long long second) {
    return {__longlong_as_double((long long)first), __longlong_as_double((long long)second)};
}

//@ ga_key_half
// The first or second two words of a key of four.
GA_INLINE unsigned long long ga_key_half(ga_c128 key, unsigned i) {
    return (unsigned long long)__double_as_longlong(i == 0 ? key.re : key.im);
}

//@ ga_key_word
GA_INLINE unsigned ga_key_word(unsigned long long key, unsigned long long i) { return (unsigned)(key >> 32 * i); }
GA_INLINE unsigned ga_key_word(ga_c128 key, unsigned long long i) {
    return ga_key_word(ga_key_half(key, (unsigned)(i / 2)), i % 2);
}

//@ ga_seed
// The two halves of a 64-bit seed; narrower seeds have no high half.
template <class T> GA_INLINE unsigned long long ga_seed(T s) {
    return ga_key(sizeof(T) == 8 ? (unsigned)((unsigned long long)s >> 32) : 0u, (unsigned)s);
}

//@ ga_seed4
template <class T> GA_INLINE ga_c128 ga_seed4(T s) { return ga_key4(ga_seed(s), ga_seed(s)); }

//@ ga_split
// Key i of those that a key is split into.
GA_INLINE unsigned long long ga_split(unsigned long long key, unsigned long long i) {
    const ga_pair p = ga_random_pair(key, i);
    return ga_key(p.x, p.y);
}
GA_INLINE ga_c128 ga_split(ga_c128 key, unsigned long long i) {
    return ga_key4(ga_split(ga_key_half(key, 0), i), ga_split(ga_key_half(key, 1), i));
}

//@ ga_old_split
// The same from the original stream, in which a key depends on their number N.
template <unsigned N> GA_INLINE unsigned long long ga_old_split(unsigned long long key, unsigned long long i) {
    return ga_key(ga_random_word<2u * N>(key, 2u * (unsigned)i), ga_random_word<2u * N>(key, 2u * (unsigned)i + 1u));
}
template <unsigned N> GA_INLINE ga_c128 ga_old_split(ga_c128 key, unsigned long long i) {
    return ga_key4(ga_old_split<N>(ga_key_half(key, 0), i), ga_old_split<N>(ga_key_half(key, 1), i));
}

//@ ga_fold_in
// A key mixed with a number.
GA_INLINE unsigned long long ga_fold_in(unsigned long long key, unsigned data) {
    const ga_pair p = ga_threefry((unsigned)key, (unsigned)(key >> 32), 0u, data);
    return ga_key(p.x, p.y);
}
GA_INLINE ga_c128 ga_fold_in(ga_c128 key, unsigned data) {
    return ga_key4(ga_fold_in(ga_key_half(key, 0), data), ga_fold_in(ga_key_half(key, 1), data));
}

//@ ga_philox
// Philox-4x32 with 10 rounds (Salmon et al., 2011): word i of a stream. The 64-bit counter begins at `start` and
// carries into the two words of the key.
GA_INLINE unsigned ga_philox(unsigned long long key, unsigned long long start, unsigned long long i) {
    const unsigned long long number = start + i / 4, upper = key + (number < start);
    unsigned c0 = (unsigned)number, c1 = (unsigned)(number >> 32);
    unsigned c2 = (unsigned)upper, c3 = (unsigned)(upper >> 32);
    unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        const unsigned long long first = c0 * 0xd2511f53ull, second = c2 * 0xcd9e8d57ull;
        c0 = (unsigned)(second >> 32) ^ c1 ^ k0;
        c1 = (unsigned)second;
        c2 = (unsigned)(first >> 32) ^ c3 ^ k1;
        c3 = (unsigned)first;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const unsigned which = (unsigned)(i % 4);
    return which == 0 ? c0 : which == 1 ? c1 : which == 2 ? c2 : c3;
}

//@ ga_philox_bits
// Element i of the stream of a key of four words: two are the key, two the start.
template <class T> GA_INLINE T ga_philox_bits(ga_c128 key, unsigned long long i) {
    const unsigned long long k = ga_key_half(key, 0), start = ga_key_half(key, 1);
    if (sizeof(T) == 8) return (T)((unsigned long long)ga_philox(k, start, 2 * i + 1) << 32 | ga_philox(k, start, 2 * i));
    return (T)ga_philox(k, start, i);
}

//@ ga_philox_group
// Four words of the stream of a key of four words, as a key.
GA_INLINE ga_c128 ga_philox_group(ga_c128 key, unsigned long long i) {
    const unsigned long long k = ga_key_half(key, 0), start = ga_key_half(key, 1);
    return ga_key(
        ga_philox(k, start, 4 * i), ga_philox(k, start, 4 * i + 1), ga_philox(k, start, 4 * i + 2),
        ga_philox(k, start, 4 * i + 3));
}

//@ ga_unsafe_split
// Key i of the unsafe generator: it draws ten keys for each one that it keeps, as JAX's does.
GA_INLINE ga_c128 ga_unsafe_split(ga_c128 key, unsigned long long i) { return ga_philox_group(key, 10 * i); }

//@ ga_unsafe_fold_in
// Of ten keys drawn from the number's own key the last one, xored with the key.
GA_INLINE ga_c128 ga_unsafe_fold_in(ga_c128 key, unsigned data) {
    const ga_c128 drawn = ga_philox_group(ga_seed4(data), 9);
    return ga_key4(
        ga_key_half(key, 0) ^ ga_key_half(drawn, 0), ga_key_half(key, 1) ^ ga_key_half(drawn, 1));
}

//@ ga_counted_bits
// Threefry with a counter: the first word of pair i, the second, or both as one number.
template <class T> GA_INLINE T ga_counted_bits(ga_c128 key, unsigned long long i, unsigned which) {
    const unsigned long long k = ga_key_half(key, 0), n = ga_key_half(key, 1) + i;
    const ga_pair p = ga_threefry((unsigned)k, (unsigned)(k >> 32), (unsigned)n, (unsigned)(n >> 32));
    if (which == 2) return (T)((unsigned long long)p.y << 32 | p.x);
    return (T)(which == 0 ? p.x : p.y);
}

//@ ga_gamma_float
// The type in which numbers of type S are computed; `as` rounds them to S after every operation.
template <class S> struct ga_gamma_float {
    using T = float;
    GA_INLINE float as(float x) { return ga_round<S>(x); }
};
template <> struct ga_gamma_float<float> {
    using T = float;
    GA_INLINE float as(float x) { return x; }
};
template <> struct ga_gamma_float<double> {
    using T = double;
    GA_INLINE double as(double x) { return x; }
};

//@ ga_old_keys
// How a generator splits a key into N, of which this is key i, and the first bits of a key's stream: Threefry's and rbg's
// original stream.
struct ga_old_keys {
    template <unsigned N, class K> GA_INLINE K split(K key, unsigned i) { return ga_old_split<N>(key, i); }
    template <class B> GA_INLINE B bits(unsigned long long key) { return ga_random_old_bits<B, 1>(key, 0u); }
    template <class B> GA_INLINE B bits(ga_c128 key) { return ga_philox_bits<B>(key, 0ull); }
};

//@ ga_new_keys
// The partitionable one.
struct ga_new_keys {
    template <unsigned N, class K> GA_INLINE K split(K key, unsigned i) { return ga_split(key, i); }
    template <class B> GA_INLINE B bits(unsigned long long key) { return ga_random_bits<B>(key, 0ull); }
    template <class B> GA_INLINE B bits(ga_c128 key) { return ga_philox_bits<B>(key, 0ull); }
};

//@ ga_unsafe_keys
struct ga_unsafe_keys {
    template <unsigned N> GA_INLINE ga_c128 split(ga_c128 key, unsigned i) { return ga_unsafe_split(key, i); }
    template <class B> GA_INLINE B bits(ga_c128 key) { return ga_philox_bits<B>(key, 0ull); }
};

//@ ga_gamma_unit
// A number in [0, 1) from a key of the generator G, of FRACTION random bits.
template <class T, class B, int FRACTION, class G, class K> GA_INLINE T ga_gamma_unit(K key) {
    const B bits = G::template bits<B>(key) >> (8 * (int)sizeof(B) - FRACTION);
    return (T)bits / (T)(1ull << FRACTION);
}

//@ ga_random_gamma
// A gamma number of shape alpha from a separate key, or its logarithm (Marsaglia and Tsang, 2000): rejection continues
// until this element's number is accepted. S has FRACTION bits of mantissa, drawn as a B.
template <class S, class B, int FRACTION, class G, bool LOG, class K>
GA_OUTLINE typename ga_gamma_float<S>::T ga_random_gamma(K key, typename ga_gamma_float<S>::T alpha) {
    using F = ga_gamma_float<S>;
    using T = typename F::T;
    if (!(alpha >= (T)0)) return (T)GA_NANF;
    const bool large = alpha >= (T)1; // below 1: sample at alpha + 1, times u ** (1 / alpha)
    const T third = F::as((T)1 / (T)3), d = F::as((large ? alpha : F::as(alpha + (T)1)) - third);
    const T c = F::as(third / F::as(ga_sqrt(d)));
    const T low = (T)1 / (T)(2ull << FRACTION) - (T)1, width = F::as((T)1 - low);
    const K boost_key = G::template split<2>(key, 1);
    key = G::template split<2>(key, 0);
    // Propose v = (1 + c x)^3 from a normal x; accept by the squeeze, or else by the exact test.
    T cube;
    for (;;) {
        K normal_key = G::template split<3>(key, 1);
        const K unit_key = G::template split<3>(key, 2);
        key = G::template split<3>(key, 0);
        T x, v;
        do {
            const T u = ga_gamma_unit<T, B, FRACTION, G>(G::template split<2>(normal_key, 1));
            normal_key = G::template split<2>(normal_key, 0);
            x = F::as(ga_erf_inv(ga_max(low, F::as(F::as(u * width) + low))));
            x = F::as(F::as((T)1.4142135623730951) * x);
            v = F::as((T)1 + F::as(x * c));
        } while (!(v > (T)0));
        const T square = F::as(x * x), u = ga_gamma_unit<T, B, FRACTION, G>(unit_key);
        cube = F::as(F::as(v * v) * v);
        const T squeeze = F::as((T)1 - F::as(F::as((T)0.0331) * F::as(square * square)));
        if (u < squeeze) break;
        const T bound = F::as(F::as((T)1 - cube) + F::as(ga_log(cube)));
        if (!(F::as(ga_log(u)) >= F::as(F::as(square * (T)0.5) + F::as(d * bound)))) break; // nan: alpha is inf
    }
    const T unit = ga_gamma_unit<T, B, FRACTION, G>(boost_key);
    if constexpr (LOG) {
        const T e = -F::as(ga_log1p(-unit)), boost = large || e == (T)0 ? (T)0 : F::as(-e / alpha);
        return F::as(F::as(F::as(ga_log(d)) + F::as(ga_log(cube))) + boost);
    } else {
        const T root = large ? (T)1 : F::as(ga_pow(F::as((T)1 - unit), F::as((T)1 / alpha)));
        return F::as(F::as(d * cube) * root);
    }
}
