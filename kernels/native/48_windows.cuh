// Sums of products over windows (convolutions and their gradients), as products of matrices whose left one is never laid
// out: its elements are read where they are, at distances that are constants.
//
// P, a struct of constants, says how long axes are and how far apart their elements lie: G groups; N images, F features and
// C channels of each; and three axes of space, along which the left operand has I elements, E apart, behind a padding of A;
// a window W elements, D apart; and the result O, S apart. Their elements lie X, Y and Z apart in left, right and result.
// It says too how the work is cut: L features side by side, blocks of B positions, and so on. OWN: the groups have one feature
// each (depthwise), which stand side by side as F features of one group.

//@ ga_register_bytes ga_register_count ga_vector
// Bytes of a vector register, and how many there are; vectors in memory of any alignment.
#if defined(__AVX512F__)
constexpr ga_index ga_register_bytes = 64, ga_register_count = 32;
#elif defined(__AVX__)
constexpr ga_index ga_register_bytes = 32, ga_register_count = 16;
#elif defined(__aarch64__)
constexpr ga_index ga_register_bytes = 16, ga_register_count = 32;
#else
constexpr ga_index ga_register_bytes = 16, ga_register_count = 16;
#endif
template <class T, ga_index W> struct ga_vector {
    typedef T type __attribute__((vector_size(W * sizeof(T)), aligned(sizeof(T)), may_alias));
};

//@ GA_FUSING GA_FUSED
// A function in which a product and a sum of vectors are one instruction where the CPU has it: `GA_FUSED` is its first line.
#if defined(__clang__)
#define GA_FUSING
#define GA_FUSED _Pragma("clang fp contract(fast)")
#else
#define GA_FUSING __attribute__((optimize("fp-contract=fast")))
#define GA_FUSED
#endif

//@ ga_panel_tile
// o[r, c] += sum over i, j, k, l of x[r, i, j, k, l] y[i, j, k, l, c] for R rows and V vectors of W columns, of L that y and o
// have; in registers, up i, j, k, l for every element. With OWN each column has an x of its own, beside its neighbours'.
template <ga_index R, ga_index V, ga_index W, ga_index L, class X, class T>
GA_FUSING static __attribute__((noinline)) void ga_panel_tile(
    const X by, const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    GA_FUSED
    typedef typename ga_vector<T, W>::type vector;
    vector sum[R][V];
    for (ga_index r = 0; r < R; ++r)
        for (ga_index v = 0; v < V; ++v) sum[r][v] = *(const vector*)(o + r * L + v * W);
    for (ga_index i = 0; i < by.K0; ++i)
        for (ga_index j = 0; j < by.K1; ++j)
            for (ga_index k = 0; k < by.K2; ++k)
                for (ga_index l = 0; l < by.K3; ++l) {
                    const T* const at = x + i * X::S0 + j * X::S1 + k * X::S2 + l * X::S3;
                    vector right[V];
                    for (ga_index v = 0; v < V; ++v) right[v] = *(const vector*)(y + v * W);
                    for (ga_index r = 0; r < R; ++r) {
                        if constexpr (X::OWN) {
                            for (ga_index v = 0; v < V; ++v) sum[r][v] += *(const vector*)(at + r * X::SR + v * W) * right[v];
                        } else {
                            const T left = at[r * X::SR];
                            for (ga_index v = 0; v < V; ++v) sum[r][v] += left * right[v];
                        }
                    }
                    y += L;
                }
    for (ga_index r = 0; r < R; ++r)
        for (ga_index v = 0; v < V; ++v) *(vector*)(o + r * L + v * W) = sum[r][v];
}

//@ ga_panel
// The same for M rows and all L columns, in tiles that fit the registers and are about equally long.
template <ga_index M, ga_index L, class X, class T> GA_INLINE void ga_panel(const X by, const T* x, const T* y, T* o) {
    constexpr ga_index W = L * sizeof(T) < ga_register_bytes ? L : ga_register_bytes / sizeof(T), vectors = L / W;
    constexpr ga_index V = vectors <= (ga_register_bytes == 64 ? 3 : 2) ? vectors : 2;
    // Registers hold the sums, a row of the right operand and an element of the left one.
    constexpr ga_index free = (ga_register_count - 1 - V) / V, most = (free < 16 ? free : 16) / 2 * 2;
    constexpr ga_index tiles = (M + most - 1) / most, R = (M + tiles - 1) / tiles;
    for (ga_index c = 0; c < L; c += V * W) {
        ga_index m = 0;
        const T* const of = x + (X::OWN ? c : 0);
        for (; m + R <= M; m += R) ga_panel_tile<R, V, W, L>(by, of + m * X::SR, y + c, o + m * L + c);
        if constexpr (M % R != 0) ga_panel_tile<M % R, V, W, L>(by, of + m * X::SR, y + c, o + m * L + c);
    }
}

//@ ga_window_copy
// H0 x H1 x H2 positions of the left operand from `a` on, of LANES lanes that lie S apart there, of which `lanes` exist:
// zeros in the padding, between elements, and in the other lanes.
template <class P, ga_index H0, ga_index H1, ga_index H2, ga_index LANES, ga_index S, class T>
static void ga_window_copy(const T* GA_ALONE x, long long a0, long long a1, long long a2, ga_index lanes, T* GA_ALONE to) {
    typedef long long place;
    for (place h0 = 0; h0 < (place)H0; ++h0)
        for (place h1 = 0; h1 < (place)H1; ++h1, to += H2 * LANES) {
            const place u = a0 + h0, v = a1 + h1;
            const bool inside = u >= 0 && u % (place)P::E0 == 0 && u / (place)P::E0 < (place)P::I0 && v >= 0 &&
                                v % (place)P::E1 == 0 && v / (place)P::E1 < (place)P::I1;
            // Elements first ... last - 1 are in this line.
            const place e = P::E2, end = a2 + (place)H2;
            place first = a2 <= 0 ? 0 : (a2 + e - 1) / e, last = end <= 0 ? 0 : (end + e - 1) / e;
            if (last > (place)P::I2) last = P::I2;
            if (!inside || first >= last) {
                __builtin_memset(to, 0, H2 * LANES * sizeof(T));
                continue;
            }
            const T* const line = x + u / (place)P::E0 * (place)P::X0 + v / (place)P::E1 * (place)P::X1;
            if (e > 1 || lanes < LANES) {
                __builtin_memset(to, 0, H2 * LANES * sizeof(T));
            } else {
                __builtin_memset(to, 0, (first - a2) * LANES * sizeof(T));
                __builtin_memset(to + (last - a2) * LANES, 0, (end - last) * LANES * sizeof(T));
            }
            T* const place_of = to + (first * e - a2) * (place)LANES;
            const T* const from = line + first * (place)P::X2;
            const ga_index count = last - first;
            if (S == 1 && lanes == LANES && e == 1 && P::X2 == LANES) {
                __builtin_memcpy(place_of, from, count * LANES * sizeof(T));
            } else if (S == 1 && lanes == LANES) {
                for (ga_index i = 0; i < count; ++i)
                    for (ga_index l = 0; l < LANES; ++l) place_of[i * e * LANES + l] = from[i * P::X2 + l];
            } else if (S == 1) {
                for (ga_index i = 0; i < count; ++i)
                    for (ga_index l = 0; l < lanes; ++l) place_of[i * e * LANES + l] = from[i * P::X2 + l];
            } else {
                for (ga_index l = 0; l < lanes; ++l)
                    for (ga_index i = 0; i < count; ++i) place_of[i * e * LANES + l] = from[i * P::X2 + l * S];
            }
        }
}

//@ ga_window_pack
// The right operand as panels: for each group, L features and CB channels the window's elements, with zeros for features and
// channels that there are not. A task is one of them.
template <class P, class T>
static void ga_window_pack(ga_index first, ga_index last, const T* GA_ALONE y, T* GA_ALONE panels) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index c0 = task % P::CBS * P::CB, f0 = task / P::CBS % P::FBS * P::L, g = task / P::CBS / P::FBS;
        const ga_index features = ga_least(P::L, P::F - f0), channels = ga_least(P::CB, P::C - c0);
        const T* const from = y + g * P::YG + f0 * P::YF + c0 * P::YC;
        T* to = panels + task * (P::W0 * P::W1 * P::W2 * P::CB * P::L);
        for (ga_index i = 0; i < P::W0; ++i)
            for (ga_index j = 0; j < P::W1; ++j)
                for (ga_index k = 0; k < P::W2; ++k)
                    for (ga_index c = 0; c < P::CB; ++c, to += P::L) {
                        const T* const at = from + i * P::Y0 + j * P::Y1 + k * P::Y2 + c * P::YC;
                        const ga_index n = c < channels ? features : 0;
                        for (ga_index f = 0; f < n; ++f) to[f] = at[f * P::YF];
                        for (ga_index f = n; f < P::L; ++f) to[f] = 0;
                    }
    }
}

//@ ga_windows
// Results of a block of positions and PB panels of features for each task, from the windows of the left operand: of all
// channels, CB at a time, or with OWN of the features' own.
template <class P, class T>
static void ga_windows(
    ga_index first, ga_index last, const T* GA_ALONE x, const T* GA_ALONE panels, T* GA_ALONE out) {
    constexpr ga_index H0 = (P::B0 - 1) * P::S0 + (P::W0 - 1) * P::D0 + 1;
    constexpr ga_index H1 = (P::B1 - 1) * P::S1 + (P::W1 - 1) * P::D1 + 1;
    constexpr ga_index H2 = (P::B2 - 1) * P::S2 + (P::W2 - 1) * P::D2 + 1;
    constexpr ga_index block = P::B0 * P::B1 * P::B2, window = P::W0 * P::W1 * P::W2 * P::CB * P::L;
    constexpr ga_index T0 = (P::O0 + P::B0 - 1) / P::B0, T1 = (P::O1 + P::B1 - 1) / P::B1;
    constexpr ga_index T2 = (P::O2 + P::B2 - 1) / P::B2, parts = (P::FBS + P::PB - 1) / P::PB;
    constexpr ga_index lanes = P::OWN ? P::L : P::CB;
    struct reads {
        enum : ga_index { K0 = P::W0, S0 = P::D0 * H1 * H2 * lanes, K1 = P::W1, S1 = P::D1 * H2 * lanes };
        enum : ga_index { K2 = P::W2, S2 = P::D2 * lanes, K3 = P::CB, S3 = 1, SR = P::S2 * lanes, OWN = P::OWN };
    };
    GA_LOCAL T seen[H0 * H1 * H2 * lanes];
    GA_LOCAL T sums[P::PB * block * P::L];
    for (ga_index task = first; task < last; ++task) {
        const ga_index o2 = task % T2 * P::B2, o1 = task / T2 % T1 * P::B1, o0 = task / (T2 * T1) % T0 * P::B0;
        const ga_index part = task / (T2 * T1 * T0) % parts * P::PB, n = task / (T2 * T1 * T0 * parts) % P::N;
        const ga_index g = task / (T2 * T1 * T0 * parts * P::N), to = ga_least(part + P::PB, P::FBS);
        __builtin_memset(sums, 0, sizeof sums);
        for (ga_index b = 0; b < P::CBS; ++b) {
            ga_window_copy<P, H0, H1, H2, lanes, P::OWN ? P::XG : P::XC>(
                x + n * P::XN + (P::OWN ? part * P::L * P::XG : g * P::XG + b * P::CB * P::XC),
                (long long)(o0 * P::S0) - P::A0, (long long)(o1 * P::S1) - P::A1, (long long)(o2 * P::S2) - P::A2,
                P::OWN ? ga_least(P::L, P::F - part * P::L) : ga_least(P::CB, P::C - b * P::CB), seen);
            for (ga_index p = part; p < to; ++p) {
                const T* const panel = panels + ((g * P::FBS + p) * P::CBS + b) * window;
                T* const of = sums + (p - part) * block * P::L;
                for (ga_index i = 0; i < P::B0; ++i)
                    for (ga_index j = 0; j < P::B1; ++j)
                        ga_panel<P::B2, P::L>(
                            reads{}, seen + (i * P::S0 * H1 + j * P::S1) * H2 * lanes, panel, of + (i * P::B1 + j) * P::B2 * P::L);
            }
        }
        const ga_index n0 = ga_least(P::B0, P::O0 - o0), n1 = ga_least(P::B1, P::O1 - o1), n2 = ga_least(P::B2, P::O2 - o2);
        for (ga_index p = part; p < to; ++p) {
            const ga_index features = ga_least(P::L, P::F - p * P::L);
            T* const of = out + g * P::ZG + n * P::ZN + p * P::L * P::ZF + o0 * P::Z0 + o1 * P::Z1 + o2 * P::Z2;
            for (ga_index i = 0; i < n0; ++i)
                for (ga_index j = 0; j < n1; ++j) {
                    const T* const from = sums + (((p - part) * P::B0 + i) * P::B1 + j) * P::B2 * P::L;
                    T* const at = of + i * P::Z0 + j * P::Z1;
                    if (P::ZF == 1 && features == P::L) {
                        for (ga_index k = 0; k < n2; ++k)
                            for (ga_index f = 0; f < P::L; ++f) at[k * P::Z2 + f] = from[k * P::L + f];
                    } else if (P::ZF == 1) {
                        for (ga_index k = 0; k < n2; ++k)
                            for (ga_index f = 0; f < features; ++f) at[k * P::Z2 + f] = from[k * P::L + f];
                    } else {
                        for (ga_index f = 0; f < features; ++f)
                            for (ga_index k = 0; k < n2; ++k) at[k * P::Z2 + f * P::ZF] = from[k * P::L + f];
                    }
                }
        }
    }
}

//@ ga_line_tile
// o[f, v] = sum over c, i, j, k of x[c, i, j, k + v] y[f, c, i, j, k] for F features and V vectors of W neighbours along the
// last axis, in registers; with `more` it is added to what o has. Features of o lie `apart`.
template <class P, class X, ga_index F, ga_index V, ga_index W, class T>
GA_FUSING static __attribute__((noinline)) void ga_line_tile(
    const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o, ga_index apart, ga_index channels, bool more) {
    GA_FUSED
    typedef typename ga_vector<T, W>::type vector;
    vector sum[F][V];
    for (ga_index f = 0; f < F; ++f)
        for (ga_index v = 0; v < V; ++v) sum[f][v] = more ? *(const vector*)(o + f * apart + v * W) : vector{};
    for (ga_index c = 0; c < channels; ++c)
        for (ga_index i = 0; i < P::W0; ++i)
            for (ga_index j = 0; j < P::W1; ++j)
                for (ga_index k = 0; k < P::W2; ++k) {
                    const T* const at = x + c * X::SC + i * X::S0 + j * X::S1 + k * X::S2;
                    const T* const by = y + c * P::YC + i * P::Y0 + j * P::Y1 + k * P::Y2;
                    vector left[V];
                    for (ga_index v = 0; v < V; ++v) left[v] = *(const vector*)(at + v * W);
                    for (ga_index f = 0; f < F; ++f) {
                        const T right = by[f * P::YF];
                        for (ga_index v = 0; v < V; ++v) sum[f][v] += left[v] * right;
                    }
                }
    for (ga_index f = 0; f < F; ++f)
        for (ga_index v = 0; v < V; ++v) *(vector*)(o + f * apart + v * W) = sum[f][v];
}

//@ ga_line
// F features of n neighbouring results, of at most M: in tiles of V vectors. A tile that does not lie in the result as it is
// has a place of its own, and is copied.
template <class P, class X, ga_index F, ga_index V, ga_index W, ga_index M, class T>
GA_INLINE void ga_line(const T* x, const T* y, T* o, ga_index n, ga_index channels, bool more) {
    GA_LOCAL T local[F * V * W];
    for (ga_index m = 0; m < ga_least(M, n); m += V * W) {
        const ga_index count = ga_least(V * W, n - m);
        T* const at = o + m * P::Z2;
        if (P::Z2 == 1 && count == V * W) {
            ga_line_tile<P, X, F, V, W>(x + m, y, at, P::ZF, channels, more);
            continue;
        }
        if (more) {
            __builtin_memset(local, 0, sizeof local);
            for (ga_index f = 0; f < F; ++f)
                for (ga_index k = 0; k < count; ++k) local[f * V * W + k] = at[f * P::ZF + k * P::Z2];
        }
        ga_line_tile<P, X, F, V, W>(x + m, y, local, V * W, channels, more);
        for (ga_index f = 0; f < F; ++f)
            for (ga_index k = 0; k < count; ++k) at[f * P::ZF + k * P::Z2] = local[f * V * W + k];
    }
}

//@ ga_window_lines
// Results of a block of positions and all features for each task, for few features: vectors are neighbours along the last
// axis, in steps of 1, and each element of the right operand is all of a vector. The left operand's channels, CB at a time,
// are copied with their padding. F features and V vectors of W are a tile.
template <class P, class T>
static void ga_window_lines(
    ga_index first, ga_index last, const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE out) {
    constexpr ga_index least = ga_register_bytes / sizeof(T), W = P::B2 < least ? P::B2 : least;
    // Registers hold the sums, the elements that they see, and one of the right operand.
    constexpr ga_index tiles = (P::F + 3) / 4, F = (P::F + tiles - 1) / tiles, most = (ga_register_count - 1) / (F + 1);
    constexpr ga_index vectors = P::B2 / W, some = most < 8 ? most : 8, lines = (vectors + some - 1) / some;
    constexpr ga_index V = (vectors + lines - 1) / lines, wide = lines * V * W;
    constexpr ga_index H0 = (P::W0 - 1) * P::D0 + 1, H1 = (P::B1 - 1) * P::S1 + (P::W1 - 1) * P::D1 + 1;
    constexpr ga_index H2 = wide - 1 + (P::W2 - 1) * P::D2 + 1;
    constexpr ga_index T1 = (P::O1 + P::B1 - 1) / P::B1, T2 = (P::O2 + P::B2 - 1) / P::B2;
    struct reads {
        enum : ga_index { SC = H0 * H1 * H2, S0 = P::D0 * H1 * H2, S1 = P::D1 * H2, S2 = P::D2 };
    };
    GA_LOCAL T seen[P::CB * H0 * H1 * H2];
    for (ga_index task = first; task < last; ++task) {
        const ga_index o2 = task % T2 * P::B2, o1 = task / T2 % T1 * P::B1, o0 = task / (T2 * T1) % P::O0;
        const ga_index n = task / (T2 * T1 * P::O0) % P::N, g = task / (T2 * T1 * P::O0 * P::N);
        const ga_index n1 = ga_least(P::B1, P::O1 - o1), n2 = ga_least(P::B2, P::O2 - o2);
        const T* const from = x + g * P::XG + n * P::XN;
        T* const to = out + g * P::ZG + n * P::ZN + o0 * P::Z0 + o1 * P::Z1 + o2 * P::Z2;
        for (ga_index c = 0; c < P::C; c += P::CB) {
            const ga_index channels = ga_least(P::CB, P::C - c);
            for (ga_index k = 0; k < channels; ++k)
                ga_window_copy<P, H0, H1, H2, 1, 1>(
                    from + (c + k) * P::XC, (long long)(o0 * P::S0) - P::A0, (long long)(o1 * P::S1) - P::A1,
                    (long long)o2 - P::A2, 1, seen + k * H0 * H1 * H2);
            for (ga_index j = 0; j < n1; ++j) {
                const T* const line = seen + j * P::S1 * H2;
                const T* const by = y + g * P::YG + c * P::YC;
                T* const at = to + j * P::Z1;
                for (ga_index f = 0; f + F <= P::F; f += F)
                    ga_line<P, reads, F, V, W, P::B2>(line, by + f * P::YF, at + f * P::ZF, n2, channels, c > 0);
                if constexpr (P::F % F != 0)
                    ga_line<P, reads, P::F % F, V, W, P::B2>(
                        line, by + P::F / F * F * P::YF, at + P::F / F * F * P::ZF, n2, channels, c > 0);
            }
        }
    }
}

//@ ga_long_windows
// Windows that are longer than the result (gradients of weights): NB images and PB panels of features for each task,
// and a piece of the sum: PIECES of them, each with separate sums. Blocks of B elements of the window are taken one
// after another. With OWN each feature has its own image.
template <class P, class T>
static void ga_long_windows(ga_index first, ga_index last, const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE partial) {
    constexpr ga_index H0 = (P::O0 - 1) * P::S0 + (P::B0 - 1) * P::D0 + 1;
    constexpr ga_index H1 = (P::O1 - 1) * P::S1 + (P::B1 - 1) * P::D1 + 1;
    constexpr ga_index H2 = (P::O2 - 1) * P::S2 + (P::B2 - 1) * P::D2 + 1;
    constexpr ga_index T0 = (P::W0 + P::B0 - 1) / P::B0, T1 = (P::W1 + P::B1 - 1) / P::B1;
    constexpr ga_index T2 = (P::W2 + P::B2 - 1) / P::B2, blocks = P::C * T0 * T1 * T2;
    constexpr ga_index rows = P::O0 * P::O1 * P::O2 * P::NB, parts = (P::FBS + P::PB - 1) / P::PB;
    constexpr ga_index turn = (blocks + P::PIECES - 1) / P::PIECES;
    // Neighbours along the last axis and images are one axis where they are steps of one.
    constexpr bool joined = P::OWN || P::S2 == 1;
    constexpr ga_index M = joined ? P::O2 * P::NB : P::NB, lines = joined ? 1 : P::O2, lanes = P::OWN ? P::L : P::NB;
    struct reads {
        enum : ga_index { S0 = 0, S1 = P::D0 * H1 * H2 * lanes, S2 = P::D1 * H2 * lanes, S3 = P::D2 * lanes };
        enum : ga_index { K0 = 1, OWN = P::OWN, SR = OWN ? P::S2 * lanes : 1 };
        const ga_index K1, K2, K3;
    };
    GA_LOCAL T seen[H0 * H1 * H2 * lanes];
    GA_LOCAL T panel[P::B0 * P::B1 * P::B2 * P::L];
    for (ga_index task = first; task < last; ++task) {
        const ga_index piece = task % P::PIECES, part = task / P::PIECES % parts * P::PB;
        const ga_index n = task / (P::PIECES * parts) % P::NBS * P::NB, g = task / (P::PIECES * parts * P::NBS);
        T* const sums = partial + task * (P::PB * rows * P::L);
        __builtin_memset(sums, 0, P::PB * rows * P::L * sizeof(T));
        for (ga_index b = piece * turn; b < ga_least(blocks, (piece + 1) * turn); ++b) {
            const ga_index w2 = b % T2 * P::B2, w1 = b / T2 % T1 * P::B1, w0 = b / (T2 * T1) % T0 * P::B0;
            const ga_index c = b / (T2 * T1 * T0);
            const reads by{ga_least(P::B0, P::W0 - w0), ga_least(P::B1, P::W1 - w1), ga_least(P::B2, P::W2 - w2)};
            ga_window_copy<P, H0, H1, H2, lanes, P::OWN ? P::XG : P::XN>(
                x + c * P::XC + (P::OWN ? part * P::L * P::XG : g * P::XG + n * P::XN), (long long)(w0 * P::D0) - P::A0,
                (long long)(w1 * P::D1) - P::A1, (long long)(w2 * P::D2) - P::A2,
                P::OWN ? ga_least(P::L, P::F - part * P::L) : ga_least(P::NB, P::N - n), seen);
            for (ga_index p = part; p < ga_least(part + P::PB, P::FBS); ++p) {
                // The window's elements side by side: no more than there are, as zeros would make nan of infinities.
                const ga_index features = ga_least(P::L, P::F - p * P::L);
                const T* const from = y + g * P::YG + c * P::YC + p * P::L * P::YF + w0 * P::Y0 + w1 * P::Y1 + w2 * P::Y2;
                T* to = panel;
                if (features < P::L) __builtin_memset(panel, 0, sizeof panel);
                for (ga_index i = 0; i < by.K1; ++i)
                    for (ga_index j = 0; j < by.K2; ++j, to += by.K3 * P::L) {
                        const T* const at = from + i * P::Y0 + j * P::Y1;
                        if (P::YF == 1 && features == P::L) {
                            for (ga_index k = 0; k < by.K3; ++k)
                                for (ga_index f = 0; f < P::L; ++f) to[k * P::L + f] = at[k * P::Y2 + f];
                        } else {
                            for (ga_index f = 0; f < features; ++f)
                                for (ga_index k = 0; k < by.K3; ++k) to[k * P::L + f] = at[k * P::Y2 + f * P::YF];
                        }
                    }
                T* of = sums + (p - part) * rows * P::L;
                for (ga_index i = 0; i < P::O0; ++i)
                    for (ga_index j = 0; j < P::O1; ++j)
                        for (ga_index k = 0; k < lines; ++k, of += M * P::L)
                            ga_panel<M, P::L>(
                                by, seen + ((i * P::S0 * H1 + j * P::S1) * H2 + k * P::S2) * lanes, panel, of);
            }
        }
    }
}

//@ ga_windows_merge
// The sums of the pieces, one after another, as results. A task is a panel of a block of images.
template <class P, class T>
static void ga_windows_merge(ga_index first, ga_index last, const T* GA_ALONE partial, T* GA_ALONE out) {
    constexpr ga_index space = P::O0 * P::O1 * P::O2, rows = space * P::NB, parts = (P::FBS + P::PB - 1) / P::PB;
    constexpr ga_index next = P::PB * rows * P::L;
    for (ga_index task = first; task < last; ++task) {
        const ga_index p = task % P::FBS, n = task / P::FBS % P::NBS * P::NB, g = task / (P::FBS * P::NBS);
        const ga_index images = ga_least(P::NB, P::N - n), features = ga_least(P::L, P::F - p * P::L);
        const T* const all = partial + ((g * P::NBS + n / P::NB) * parts + p / P::PB) * P::PIECES * next +
                             p % P::PB * rows * P::L;
        for (ga_index o = 0; o < space; ++o)
            for (ga_index m = 0; m < images; ++m) {
                const T* const row = all + (o * P::NB + m) * P::L;
                GA_LOCAL T sum[P::L];
                for (ga_index f = 0; f < P::L; ++f) sum[f] = row[f];
                for (ga_index piece = 1; piece < P::PIECES; ++piece)
                    for (ga_index f = 0; f < P::L; ++f) sum[f] += row[piece * next + f];
                T* const at = out + g * P::ZG + (n + m) * P::ZN + p * P::L * P::ZF + o / (P::O1 * P::O2) * P::Z0 +
                              o / P::O2 % P::O1 * P::Z1 + o % P::O2 * P::Z2;
                for (ga_index f = 0; f < features; ++f) at[f * P::ZF] = sum[f];
            }
    }
}
