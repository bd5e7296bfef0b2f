// Generators of one hash of a key and a counter (Salmon et al., 2011): Philox-2x32, Philox-4x32, Threefry-4x32.

//@ ga_quad
struct ga_quad { unsigned x, y, z, w; };

//@ ga_philox2x32
// Philox-2x32 with 10 rounds: two words from a key of one word and a counter of two.
GA_INLINE ga_pair ga_philox2x32(unsigned k, unsigned x, unsigned y) {
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        const unsigned long long product = x * 0xd256d193ull;
        x = (unsigned)(product >> 32) ^ y ^ k;
        y = (unsigned)product;
        k += 0x9e3779b9u;
    }
    return {x, y};
}

//@ ga_phx2_seed
// Keys and numbers of the generator philox2x32, whose keys are one word.
template <class T> GA_INLINE unsigned ga_phx2_seed(T s) {
    const unsigned long long halves = ga_seed(s);
    return ga_philox2x32(0u, (unsigned)halves, (unsigned)(halves >> 32)).x;
}

//@ ga_phx2_split
GA_INLINE unsigned ga_phx2_split(unsigned key, unsigned long long i) {
    return ga_philox2x32(key, (unsigned)(i >> 32), (unsigned)i).x;
}

//@ ga_phx2_fold_in
GA_INLINE unsigned ga_phx2_fold_in(unsigned key, unsigned data) { return ga_philox2x32(key, 0u, data).x; }

//@ ga_phx2_bits
template <class T> GA_INLINE T ga_phx2_bits(unsigned key, unsigned long long i) {
    const ga_pair p = ga_philox2x32(key, (unsigned)(i >> 32), (unsigned)i);
    return sizeof(T) == 8 ? (T)((unsigned long long)p.x << 32 | p.y) : (T)(p.x ^ p.y);
}

//@ ga_phx2_keys
struct ga_phx2_keys {
    template <unsigned N> GA_INLINE unsigned split(unsigned key, unsigned i) { return ga_phx2_split(key, i); }
    template <class B> GA_INLINE B bits(unsigned key) { return ga_phx2_bits<B>(key, 0ull); }
};

//@ ga_philox4x32
// Philox-4x32 with 10 rounds: four words from a key of two words and a counter of four.
GA_INLINE ga_quad ga_philox4x32(unsigned long long key, unsigned x, unsigned y, unsigned z, unsigned w) {
    unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        const unsigned long long first = x * 0xd2511f53ull, second = z * 0xcd9e8d57ull;
        x = (unsigned)(second >> 32) ^ y ^ k0;
        y = (unsigned)second;
        z = (unsigned)(first >> 32) ^ w ^ k1;
        w = (unsigned)first;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return {x, y, z, w};
}

//@ ga_phx4_seed
// Keys and numbers of the generator philox4x32, whose keys are two words. Keys come from the last words of a
// counter, numbers from the first.
template <class T> GA_INLINE unsigned long long ga_phx4_seed(T s) {
    const unsigned long long halves = ga_seed(s);
    const ga_quad q = ga_philox4x32(0ull, (unsigned)halves, (unsigned)(halves >> 32), 0u, 0u);
    return ga_key(q.x, q.y);
}

//@ ga_phx4_split
GA_INLINE unsigned long long ga_phx4_split(unsigned long long key, unsigned long long i) {
    const ga_quad q = ga_philox4x32(key, 0u, 0u, (unsigned)(i >> 32), (unsigned)i);
    return ga_key(q.x, q.y);
}

//@ ga_phx4_fold_in
GA_INLINE unsigned long long ga_phx4_fold_in(unsigned long long key, unsigned data) {
    const ga_quad q = ga_philox4x32(key, 0u, 0u, 0u, data);
    return ga_key(q.x, q.y);
}

//@ ga_phx4_bits
template <class T> GA_INLINE T ga_phx4_bits(unsigned long long key, unsigned long long i) {
    const ga_quad q = ga_philox4x32(key, (unsigned)(i >> 32), (unsigned)i, 0u, 0u);
    return sizeof(T) == 8 ? (T)((unsigned long long)q.x << 32 | q.y) : (T)(q.x ^ q.y ^ q.z ^ q.w);
}

//@ ga_phx4_keys
struct ga_phx4_keys {
    template <unsigned N> GA_INLINE unsigned long long split(unsigned long long key, unsigned i) { return ga_phx4_split(key, i); }
    template <class B> GA_INLINE B bits(unsigned long long key) { return ga_phx4_bits<B>(key, 0ull); }
};

//@ ga_threefry4x32
// Threefry-4x32 with 20 rounds: four words from a key of four words and a counter of four.
GA_INLINE ga_quad ga_threefry4x32(ga_c128 key, unsigned x, unsigned y, unsigned z, unsigned w) {
    const unsigned long long low = ga_key_half(key, 0), high = ga_key_half(key, 1);
    unsigned k[5] = {(unsigned)low, (unsigned)(low >> 32), (unsigned)high, (unsigned)(high >> 32), 0u};
    k[4] = k[0] ^ k[1] ^ k[2] ^ k[3] ^ 0x1bd11bdau;
    const int by[16] = {10, 26, 11, 21, 13, 27, 23, 5, 6, 20, 17, 11, 25, 10, 18, 20};
    x += k[0];
    y += k[1];
    z += k[2];
    w += k[3];
#pragma unroll
    for (int r = 0; r < 20; ++r) {
        const int a = by[r % 8 * 2], b = by[r % 8 * 2 + 1];
        if (r % 2 == 0) { // words 0 and 1, 2 and 3; in the other rounds 0 and 3, 2 and 1
            x += y;
            y = (y << a | y >> (32 - a)) ^ x;
            z += w;
            w = (w << b | w >> (32 - b)) ^ z;
        } else {
            x += w;
            w = (w << a | w >> (32 - a)) ^ x;
            z += y;
            y = (y << b | y >> (32 - b)) ^ z;
        }
        if (r % 4 == 3) {
            const int group = r / 4 + 1;
            x += k[group % 5];
            y += k[(group + 1) % 5];
            z += k[(group + 2) % 5];
            w += k[(group + 3) % 5] + (unsigned)group;
        }
    }
    return {x, y, z, w};
}

//@ ga_fry4_seed
// Keys and numbers of the generator threefry4x32, whose keys are four words.
template <class T> GA_INLINE ga_c128 ga_fry4_seed(T s) {
    const ga_quad q = ga_threefry4x32(ga_key4(ga_seed(s), 0ull), 0u, 0u, 0u, 0u);
    return ga_key(q.x, q.y, q.z, q.w);
}

//@ ga_fry4_split
GA_INLINE ga_c128 ga_fry4_split(ga_c128 key, unsigned long long i) {
    const ga_quad q = ga_threefry4x32(key, 0u, 0u, (unsigned)(i >> 32), (unsigned)i);
    return ga_key(q.x, q.y, q.z, q.w);
}

//@ ga_fry4_fold_in
GA_INLINE ga_c128 ga_fry4_fold_in(ga_c128 key, unsigned data) {
    const ga_quad q = ga_threefry4x32(key, 0u, 0u, 0u, data);
    return ga_key(q.x, q.y, q.z, q.w);
}

//@ ga_fry4_bits
template <class T> GA_INLINE T ga_fry4_bits(ga_c128 key, unsigned long long i) {
    const ga_quad q = ga_threefry4x32(key, (unsigned)(i >> 32), (unsigned)i, 0u, 0u);
    if (sizeof(T) == 8) return (T)((unsigned long long)(q.x ^ q.z) << 32 | (q.y ^ q.w));
    return (T)(q.x ^ q.y ^ q.z ^ q.w);
}

//@ ga_fry4_keys
struct ga_fry4_keys {
    template <unsigned N> GA_INLINE ga_c128 split(ga_c128 key, unsigned i) { return ga_fry4_split(key, i); }
    template <class B> GA_INLINE B bits(ga_c128 key) { return ga_fry4_bits<B>(key, 0ull); }
};
