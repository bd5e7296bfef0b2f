// Fourier transforms, of several sequences side by side: each has a lane of a register.

//@ ga_lanes_of ga_fft_few
// Numbers in a register. A complex element of several sequences is two registers: real parts, imaginary parts.
template <class T> struct ga_lanes_of {
    typedef T type __attribute__((vector_size(GA_REGISTER), may_alias));
    typedef T placed __attribute__((vector_size(GA_REGISTER), may_alias, aligned(sizeof(T))));  // in memory, anywhere
    enum : ga_index { count = GA_REGISTER / sizeof(T) };
};
// The transform of R elements, where they are. `w` has the powers of exp(-2 pi i / R), each STEP pairs behind the one before.
template <class V> GA_INLINE void ga_fft_2(V& ar, V& ai, V& br, V& bi) {
    const V r = ar - br, i = ai - bi;
    ar = ar + br, ai = ai + bi, br = r, bi = i;
}
template <class V> GA_INLINE void ga_fft_4(V& ar, V& ai, V& br, V& bi, V& cr, V& ci, V& dr, V& di) {
    ga_fft_2(ar, ai, cr, ci);
    ga_fft_2(br, bi, dr, di);
    ga_fft_2(ar, ai, br, bi);
    // c - i d and c + i d; b holds the third result so far.
    const V r = cr + di, i = ci - dr, sr = cr - di, si = ci + dr;
    cr = br, ci = bi, br = r, bi = i, dr = sr, di = si;
}
template <ga_index R, ga_index STEP, class T, class V> GA_INLINE void ga_fft_few(V* re, V* im, const T* w) {
    if constexpr (R == 2) {
        ga_fft_2(re[0], im[0], re[1], im[1]);
    } else if constexpr (R == 4) {
        ga_fft_4(re[0], im[0], re[1], im[1], re[2], im[2], re[3], im[3]);
    } else if constexpr (R == 8) {
        ga_fft_4(re[0], im[0], re[2], im[2], re[4], im[4], re[6], im[6]);
        ga_fft_4(re[1], im[1], re[3], im[3], re[5], im[5], re[7], im[7]);
        // The odd ones times exp(-2 pi i k / 8).
        const T half = (T)0.70710678118654752440L;
        const V r3 = (re[3] + im[3]) * half, i3 = (im[3] - re[3]) * half, r5 = im[5], i5 = -re[5];
        const V r7 = (im[7] - re[7]) * half, i7 = -(re[7] + im[7]) * half;
        GA_LOCAL const V er[4] = {re[0], re[2], re[4], re[6]}, ei[4] = {im[0], im[2], im[4], im[6]};
        GA_LOCAL const V odd_r[4] = {re[1], r3, r5, r7}, odd_i[4] = {im[1], i3, i5, i7};
        for (int k = 0; k < 4; ++k) {
            re[k] = er[k] + odd_r[k], im[k] = ei[k] + odd_i[k];
            re[k + 4] = er[k] - odd_r[k], im[k + 4] = ei[k] - odd_i[k];
        }
    } else {
        // An odd number: sums and differences of the elements at both ends, times cosines and sines.
        constexpr ga_index H = R / 2;
        GA_LOCAL V sr[H + 1], si[H + 1], dr[H + 1], di[H + 1];
        V r0 = re[0], i0 = im[0];
        for (ga_index j = 1; j <= H; ++j) {
            sr[j] = re[j] + re[R - j], si[j] = im[j] + im[R - j], dr[j] = re[j] - re[R - j], di[j] = im[j] - im[R - j];
            r0 = r0 + sr[j], i0 = i0 + si[j];
        }
        for (ga_index k = 1; k <= H; ++k) {
            V cr = re[0], ci = im[0], tr = V{}, ti = V{};
            for (ga_index j = 1; j <= H; ++j) {
                const T c = w[2 * (j * k % R) * STEP], s = w[2 * (j * k % R) * STEP + 1];
                cr = cr + sr[j] * c, ci = ci + si[j] * c, tr = tr + di[j] * s, ti = ti + dr[j] * s;
            }
            re[k] = cr - tr, im[k] = ci + ti, re[R - k] = cr + tr, im[R - k] = ci - ti;
        }
        re[0] = r0, im[0] = i0;
    }
}

//@ ga_fft_passes
// Transforms of N elements between two pieces of memory, R after R of them; returns which piece has the result. `w` has the N-th
// powers of exp(-2 pi i / N). M parts of each transform are left, S are done.
constexpr ga_index ga_radix(ga_index n) {
    if (n % 8 == 0 && n != 16) return 8;
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : n % 5 == 0 ? 5 : n % 7 == 0 ? 7 : n % 11 == 0 ? 11 : 13;
}
template <class T, ga_index N, ga_index R, ga_index M, ga_index S, class V>
static inline void ga_fft_pass(const V* GA_ALONE x, V* GA_ALONE y, const T* GA_ALONE w) {
    for (ga_index p = 0; p < M; ++p)
        for (ga_index q = 0; q < S; ++q) {
            GA_LOCAL V re[R], im[R];
            for (ga_index j = 0; j < R; ++j) re[j] = x[2 * (q + S * (p + j * M))], im[j] = x[2 * (q + S * (p + j * M)) + 1];
            ga_fft_few<R, N / R>(re, im, w);
            for (ga_index k = 0; k < R; ++k) {
                V r = re[k], i = im[k];
                if (M > 1 && k > 0) {
                    const T c = w[2 * p * k * S], s = w[2 * p * k * S + 1];
                    r = re[k] * c - im[k] * s, i = re[k] * s + im[k] * c;
                }
                y[2 * (q + S * (R * p + k))] = r, y[2 * (q + S * (R * p + k)) + 1] = i;
            }
        }
}
template <class T, ga_index N, ga_index LEFT = N, class V> static inline V* ga_fft_passes(V* x, V* y, const T* w) {
    if constexpr (LEFT == 1) {
        return x;
    } else {
        constexpr ga_index R = ga_radix(LEFT);
        ga_fft_pass<T, N, R, LEFT / R, N / LEFT>(x, y, w);
        return ga_fft_passes<T, N, LEFT / R>(y, x, w);
    }
}

//@ ga_fft_get ga_fft_put
// An element of each lane, from and to complex numbers `apart` pairs from one another, `count` of them. With SWAP real
// and imaginary parts are exchanged, which makes a transform the inverse one.
template <bool SWAP, class T, class V> GA_INLINE void ga_fft_get(V* x, const T* from, ga_index apart, ga_index count) {
    constexpr ga_index L = ga_lanes_of<T>::count;
    T *const re = (T*)(x + SWAP), *const im = (T*)(x + !SWAP);
    if (apart == 1 && count == L) {
        for (ga_index l = 0; l < L; ++l) re[l] = from[2 * l], im[l] = from[2 * l + 1];
    } else {
        for (ga_index l = 0; l < count; ++l) re[l] = from[2 * l * apart], im[l] = from[2 * l * apart + 1];
        for (ga_index l = count; l < L; ++l) re[l] = 0, im[l] = 0;
    }
}
template <bool SWAP, ga_index TOTAL, class T, class V>
GA_INLINE void ga_fft_put(T* to, const V* x, ga_index apart, ga_index count) {
    constexpr ga_index L = ga_lanes_of<T>::count;
    const T scale = (T)(1.0L / TOTAL);
    const T *const re = (const T*)(x + SWAP), *const im = (const T*)(x + !SWAP);
    if (apart == 1 && count == L) {
        for (ga_index l = 0; l < L; ++l) to[2 * l] = re[l] * scale, to[2 * l + 1] = im[l] * scale;
    } else {
        for (ga_index l = 0; l < count; ++l) to[2 * l * apart] = re[l] * scale, to[2 * l * apart + 1] = im[l] * scale;
    }
}

//@ ga_fft_lines
// Transforms of N elements `step` pairs apart; of ACROSS neighbours `apart` pairs from one another, and of several of
// such groups. They may be in place. Tasks are W neighbours.
template <class T, bool SWAP, ga_index TOTAL, ga_index W, ga_index N, ga_index STEP, ga_index ACROSS, ga_index APART, ga_index GROUP>
static void ga_fft_lines(ga_index first, ga_index last, const T* from, T* to, const T* w) {
    typedef typename ga_lanes_of<T>::type lanes;
    constexpr ga_index L = ga_lanes_of<T>::count, blocks = (ACROSS + W - 1) / W;
    GA_LOCAL lanes x[2 * N], y[2 * N];
    for (ga_index task = first; task < last; ++task) {
        const ga_index group = task / blocks * GROUP, begin = task % blocks * W, end = ga_least(begin + W, ACROSS);
        for (ga_index l = begin; l < end; l += L) {
            const ga_index count = ga_least(L, end - l);
            for (ga_index e = 0; e < N; ++e)
                ga_fft_get<SWAP>(x + 2 * e, from + 2 * (group + l * APART + e * STEP), APART, count);
            const lanes* const z = ga_fft_passes<T, N>(x, y, w);
            for (ga_index e = 0; e < N; ++e)
                ga_fft_put<SWAP, TOTAL>(to + 2 * (group + l * APART + e * STEP), z + 2 * e, APART, count);
        }
    }
}

//@ ga_fft_rows ga_fft_across ga_fft_turned ga_fft_along
// Transforms of long rows of N1 x N2 elements: along the columns of this matrix, times powers of exp(-2 pi i / (N1 N2)), then along its
// rows. `w` has the powers for N1, for N2, and the factors between, real parts before imaginary ones. Between these steps a row is
// real parts and imaginary parts by themselves. Tasks of a step are W of its transforms, side by side.
template <class T, bool SWAP, ga_index W, ga_index N1, ga_index N2>
static void ga_fft_across(ga_index first, ga_index last, const T* from, T* GA_ALONE to, const T* GA_ALONE w) {
    typedef typename ga_lanes_of<T>::type lanes;
    typedef typename ga_lanes_of<T>::placed placed;
    constexpr ga_index L = ga_lanes_of<T>::count, N = N1 * N2, blocks = (N2 + W - 1) / W;
    const T* const between = w + 2 * (N1 + N2);
    GA_LOCAL lanes x[2 * N1], y[2 * N1];
    for (ga_index task = first; task < last; ++task) {
        const ga_index row = 2 * N * (task / blocks), begin = task % blocks * W, end = ga_least(begin + W, N2);
        for (ga_index l = begin; l < end; l += L) {
            const ga_index count = ga_least(L, end - l);
            for (ga_index e = 0; e < N1; ++e) ga_fft_get<SWAP>(x + 2 * e, from + row + 2 * (e * N2 + l), 1, count);
            const lanes* const z = ga_fft_passes<T, N1>(x, y, w);
            for (ga_index e = 0; e < N1; ++e) {
                const lanes c = *(const placed*)(between + e * N2 + l), s = *(const placed*)(between + N + e * N2 + l);
                const lanes re = z[2 * e] * c - z[2 * e + 1] * s, im = z[2 * e] * s + z[2 * e + 1] * c;
                T* const at = to + row + e * N2 + l;
                if (count == L) {
                    *(placed*)at = re, *(placed*)(at + N) = im;
                } else {
                    for (ga_index k = 0; k < count; ++k) at[k] = re[k], at[N + k] = im[k];
                }
            }
        }
    }
}
template <class T, ga_index N1, ga_index N2>
static void ga_fft_turned(ga_index first, ga_index last, const T* GA_ALONE from, T* GA_ALONE to) {
    for (ga_index part = first; part < last; ++part) ga_turn(to + part * N1 * N2, N1, from + part * N1 * N2, N2, N2, N1);
}
template <class T, bool SWAP, ga_index TOTAL, ga_index W, ga_index N1, ga_index N2>
static void ga_fft_along(ga_index first, ga_index last, const T* GA_ALONE from, T* to, const T* GA_ALONE w) {
    typedef typename ga_lanes_of<T>::type lanes;
    typedef typename ga_lanes_of<T>::placed placed;
    constexpr ga_index L = ga_lanes_of<T>::count, N = N1 * N2, blocks = (N1 + W - 1) / W;
    GA_LOCAL lanes x[2 * N2], y[2 * N2];
    for (ga_index task = first; task < last; ++task) {
        const ga_index row = 2 * N * (task / blocks), begin = task % blocks * W, end = ga_least(begin + W, N1);
        for (ga_index l = begin; l < end; l += L) {
            const ga_index count = ga_least(L, end - l);
            for (ga_index e = 0; e < N2; ++e) {
                const T* const at = from + row + e * N1 + l;
                if (count == L) {
                    x[2 * e] = *(const placed*)at, x[2 * e + 1] = *(const placed*)(at + N);
                } else {
                    x[2 * e] = x[2 * e + 1] = lanes{};
                    for (ga_index k = 0; k < count; ++k) x[2 * e][k] = at[k], x[2 * e + 1][k] = at[N + k];
                }
            }
            const lanes* const z = ga_fft_passes<T, N2>(x, y, w + 2 * N1);
            for (ga_index e = 0; e < N2; ++e) ga_fft_put<SWAP, TOTAL>(to + row + 2 * (e * N1 + l), z + 2 * e, 1, count);
        }
    }
}
// All steps of a row, one after the other. Tasks are rows.
template <class T, bool SWAP, ga_index TOTAL, ga_index W, ga_index N1, ga_index N2>
static void ga_fft_rows(ga_index first, ga_index last, const T* from, T* to, const T* w) {
    constexpr ga_index N = N1 * N2;
    GA_LOCAL T one[2 * N], two[2 * N];
    for (ga_index row = first; row < last; ++row) {
        ga_fft_across<T, SWAP, W, N1, N2>(0, (N2 + W - 1) / W, from + 2 * N * row, one, w);
        ga_fft_turned<T, N1, N2>(0, 2, one, two);
        ga_fft_along<T, SWAP, TOTAL, W, N1, N2>(0, (N1 + W - 1) / W, two, to + 2 * N * row, w);
    }
}

//@ ga_fft_of_real ga_fft_to_real
// Spectra of 2 H real numbers, from the transforms of the H pairs that they make, and such transforms from spectra. `w` has H powers
// of exp(-2 pi i / (2 H)). Tasks are rows.
template <class T, ga_index H> static void ga_fft_of_real(ga_index first, ga_index last, const T* GA_ALONE z, T* GA_ALONE to, const T* GA_ALONE w) {
    const T half = (T)0.5;
    for (ga_index row = first; row < last; ++row) {
        const T* const a = z + 2 * H * row;
        T* const o = to + 2 * (H + 1) * row;
        o[0] = a[0] + a[1], o[1] = 0, o[2 * H] = a[0] - a[1], o[2 * H + 1] = 0;
        for (ga_index k = 1; k < H; ++k) {
            const ga_index l = H - k;
            const T er = (a[2 * k] + a[2 * l]) * half, ei = (a[2 * k + 1] - a[2 * l + 1]) * half;
            const T dr = (a[2 * k + 1] + a[2 * l + 1]) * half, di = (a[2 * l] - a[2 * k]) * half;  // of the odd numbers
            o[2 * k] = er + (dr * w[2 * k] - di * w[2 * k + 1]), o[2 * k + 1] = ei + (dr * w[2 * k + 1] + di * w[2 * k]);
        }
    }
}
template <class T, ga_index H> static void ga_fft_to_real(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE to, const T* GA_ALONE w) {
    const T half = (T)0.5;
    for (ga_index row = first; row < last; ++row) {
        const T* const a = x + 2 * (H + 1) * row;
        T* const o = to + 2 * H * row;
        // The imaginary parts of both ends count as zero.
        o[0] = (a[0] + a[2 * H]) * half, o[1] = (a[0] - a[2 * H]) * half;
        for (ga_index k = 1; k < H; ++k) {
            const ga_index l = H - k;
            const T er = (a[2 * k] + a[2 * l]) * half, ei = (a[2 * k + 1] - a[2 * l + 1]) * half;
            const T dr = (a[2 * k] - a[2 * l]) * half, di = (a[2 * k + 1] + a[2 * l + 1]) * half;
            const T r = dr * w[2 * k] + di * w[2 * k + 1], i = di * w[2 * k] - dr * w[2 * k + 1];  // rotated back
            o[2 * k] = er - i, o[2 * k + 1] = ei + r;
        }
    }
}
