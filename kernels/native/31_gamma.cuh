// Gamma numbers for a CPU. Each element draws until its number is accepted, which most first ones are: all elements of a block
// draw one, in vectors, then those that are left draw the next. The numbers are those of the prelude's function.

//@ ga_gamma_keys ga_gamma_units ga_gamma_normals
// The N keys that each of some keys is split into, uniform numbers, and normal numbers. Functions of their own, as hashes are long.
// Keys are there up to a multiple of 16.
template <class G, int N, class K>
__attribute__((noinline)) static void ga_gamma_keys(const K* GA_ALONE key, int many, K* GA_ALONE a, K* GA_ALONE b, K* GA_ALONE c) {
    const int filled = (many + 15) / 16 * 16;
    for (int i = 0; i < filled; ++i) {
        a[i] = G::template split<N>(key[i], 0), b[i] = G::template split<N>(key[i], 1);
        if constexpr (N > 2) c[i] = G::template split<N>(key[i], 2);
    }
}
template <class B, int FRACTION, class G, class K, class T>
__attribute__((noinline)) static void ga_gamma_units(const K* GA_ALONE key, int many, T* GA_ALONE u) {
    const int filled = (many + 15) / 16 * 16;
    for (int i = 0; i < filled; ++i) u[i] = ga_gamma_unit<T, B, FRACTION, G>(key[i]);
}
// The keys become those of the next normal numbers.
template <class S, class B, int FRACTION, class G, int MOST, class K, class T>
__attribute__((noinline)) static void ga_gamma_normals(K* GA_ALONE key, int many, T* GA_ALONE x) {
    using F = ga_gamma_float<S>;
    const T low = (T)1 / (T)(2ull << FRACTION) - (T)1, width = F::as((T)1 - low);
    const int filled = (many + 15) / 16 * 16;
    GA_LOCAL K next[MOST], now[MOST];
    ga_gamma_keys<G, 2>(key, many, next, now, now);
    ga_gamma_units<B, FRACTION, G>(now, many, x);
    for (int i = 0; i < filled; ++i) {
        key[i] = next[i];
        x[i] = F::as(F::as((T)1.4142135623730951) * F::as(ga_erf_inv(ga_max(low, F::as(F::as(x[i] * width) + low)))));
    }
}

//@ ga_random_gamma_for_many ga_gamma_numbers ga_gamma_is_rejected
// Whether (1 + c x)^3 is rejected for a normal x and a uniform u, by the exact test, which holds where the squeeze does.
template <class S, class T> GA_INLINE bool ga_gamma_is_rejected(T u, T x, T cube, T d) {
    using F = ga_gamma_float<S>;
    const T square = F::as(x * x), squeeze = F::as((T)1 - F::as(F::as((T)0.0331) * F::as(square * square)));
    const T bound = F::as(F::as((T)1 - cube) + F::as(ga_log(cube)));
    return !(u < squeeze) & (F::as(ga_log(u)) >= F::as(F::as(square * (T)0.5) + F::as(d * bound)));
}
// Of at most MOST elements.
template <class S, class B, int FRACTION, class G, bool LOG, int MOST, class K, class T, class R>
static void ga_gamma_numbers(K* GA_ALONE keys, T* GA_ALONE alpha, int many, R* GA_ALONE found) {
    using F = ga_gamma_float<S>;
    const T third = F::as((T)1 / (T)3);
    GA_LOCAL K key[MOST], next[MOST], boost[MOST], normal[MOST], unit[MOST], alone[16];
    GA_LOCAL T d[MOST], c[MOST], all_d[MOST], x[MOST], v[MOST], u[MOST], cubes[MOST], one[16];
    GA_LOCAL int at[MOST], rejected[MOST];
    const int filled = (many + 15) / 16 * 16;
    for (int i = many; i < filled; ++i) keys[i] = keys[0], alpha[i] = (T)1;
    for (int i = 0; i < 16; ++i) alone[i] = keys[0];
    int small = 0;
    for (int i = 0; i < filled; ++i) {
        const T shape = alpha[i] >= (T)0 ? alpha[i] : (T)1;
        const bool large = shape >= (T)1;
        small |= !large;
        all_d[i] = d[i] = F::as((large ? shape : F::as(shape + (T)1)) - third);
        c[i] = F::as(third / F::as(ga_sqrt(d[i])));
        at[i] = i;
    }
    ga_gamma_keys<G, 2>(keys, many, key, boost, boost);
    for (int left = many; left > 0;) {
        const int padded = (left + 15) / 16 * 16;
        ga_gamma_keys<G, 3>(key, left, next, normal, unit);
        ga_gamma_normals<S, B, FRACTION, G, MOST>(normal, left, x);
        ga_gamma_units<B, FRACTION, G>(unit, left, u);
        for (int i = 0; i < padded; ++i) v[i] = F::as((T)1 + F::as(x[i] * c[i]));
        // A few have to draw another normal number.
        for (int i = 0; i < left; ++i) {
            if (v[i] > (T)0) continue;
            alone[0] = normal[i];
            do {
                ga_gamma_normals<S, B, FRACTION, G, 16>(alone, 1, one);
                x[i] = one[0];
                v[i] = F::as((T)1 + F::as(x[i] * c[i]));
            } while (!(v[i] > (T)0));
        }
        for (int i = 0; i < padded; ++i) {
            v[i] = F::as(F::as(v[i] * v[i]) * v[i]);
            rejected[i] = ga_gamma_is_rejected<S>(u[i], x[i], v[i], d[i]);
        }
        int again = 0;
        for (int i = 0; i < left; ++i) {
            const int l = at[i];
            cubes[l] = v[i];
            at[again] = l, key[again] = next[i], d[again] = d[i], c[again] = c[i];
            again += rejected[i];
        }
        left = again;
    }
    if (LOG | small) ga_gamma_units<B, FRACTION, G>(boost, many, u);
    for (int i = 0; i < many; ++i) {
        const bool large = alpha[i] >= (T)1;
        T y;
        if constexpr (LOG) {
            const T e = -F::as(ga_log1p(-u[i])), rest = large | (e == (T)0) ? (T)0 : F::as(-e / alpha[i]);
            y = F::as(F::as(F::as(ga_log(all_d[i])) + F::as(ga_log(cubes[i]))) + rest);
        } else {
            y = F::as(all_d[i] * cubes[i]);
        }
        found[i] = (R)(alpha[i] >= (T)0 ? y : (T)GA_NANF);
    }
    if (!LOG & small)
        for (int i = 0; i < many; ++i) {
            const T root = F::as(ga_pow(F::as((T)1 - u[i]), F::as((T)1 / alpha[i])));
            found[i] = alpha[i] >= (T)1 ? found[i] : (R)F::as((T)found[i] * root);
        }
}
// Of elements begin ... end, whose operands `given` tells.
template <class S, class B, int FRACTION, class G, bool LOG, class O, class R>
static void ga_random_gamma_for_many(const O& given, ga_index begin, ga_index end, R* GA_ALONE found) {
    constexpr int MOST = 256;
    using T = typename ga_gamma_float<S>::T;
    GA_LOCAL decltype(given(begin).a) keys[MOST];
    GA_LOCAL T alpha[MOST];
    for (; begin < end; begin += MOST, found += MOST) {
        const int many = (int)ga_least(end - begin, MOST);
        for (int i = 0; i < many; ++i) {
            const auto one = given(begin + i);
            keys[i] = one.a, alpha[i] = one.b;
        }
        ga_gamma_numbers<S, B, FRACTION, G, LOG, MOST>(keys, alpha, many, found);
    }
}
