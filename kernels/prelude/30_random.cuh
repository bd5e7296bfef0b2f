// Threefry-2x32 with 20 rounds (Salmon et al., 2011): random words from a key and a counter.

//@ ga_pair
struct ga_pair { unsigned x, y; };

//@ ga_threefry
GA_INLINE ga_pair ga_threefry(unsigned k0, unsigned k1, unsigned x, unsigned y) {
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
// The pair of words a key (its first word in the low half) makes of a 64-bit counter.
GA_INLINE ga_pair ga_random_pair(unsigned long long key, unsigned long long counter) {
    return ga_threefry((unsigned)key, (unsigned)(key >> 32), (unsigned)(counter >> 32), (unsigned)counter);
}

//@ ga_random_bits
// Element i of a stream in which every element has a counter of its own.
template <class T> GA_INLINE T ga_random_bits(unsigned long long key, unsigned long long i) {
    const ga_pair p = ga_random_pair(key, i);
    return sizeof(T) == 8 ? (T)((unsigned long long)p.x << 32 | p.y) : (T)(p.x ^ p.y);
}

//@ ga_random_word
// Word i of the older stream of SIZE words: word i and word i + SIZE / 2 come from one pair.
template <unsigned SIZE> GA_INLINE unsigned ga_random_word(unsigned long long key, unsigned i) {
    const unsigned half = SIZE / 2u + SIZE % 2u, first = i < half ? i : i - half;
    const unsigned second = half + first < SIZE ? half + first : 0u;
    const ga_pair p = ga_threefry((unsigned)key, (unsigned)(key >> 32), first, second);
    return i < half ? p.x : p.y;
}

//@ ga_random_old_bits
// Element i of N from the older stream: wide ones from two words far apart, narrow ones cut from one.
template <class T, unsigned N> GA_INLINE T ga_random_old_bits(unsigned long long key, unsigned i) {
    if constexpr (sizeof(T) == 8) {
        const unsigned long long high = ga_random_word<2u * N>(key, i);
        return high << 32 | ga_random_word<2u * N>(key, N + i);
    } else {
        const unsigned a_word = 4u / sizeof(T), words = N / a_word + (N % a_word != 0);
        return (T)(ga_random_word<words>(key, i / a_word) >> i % a_word * 8u * sizeof(T));
    }
}
