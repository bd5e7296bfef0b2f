// The incomplete gamma function of floats for a CPU. Its sums have as many terms as they need, which differs from element to
// element: those of several elements go on side by side until the last of them ends, each standing still from its own end on.
// So results do not depend on which elements are neighbours. Sums are fractions of two sums, without divisions.

//@ ga_operands
// The operands of a function of many elements (`f_for_many`), for one of them.
template <class A, class B> struct ga_operands_of { A a; B b; };
template <class A, class B> GA_INLINE ga_operands_of<A, B> ga_operands(A a, B b) { return {a, b}; }

//@ ga_doubles GA_SUMS
// A register of doubles, and how many of them are computed at a time: additions wait for those before them.
#if defined(__AVX512F__)
typedef double ga_doubles __attribute__((vector_size(64), aligned(8), may_alias));
#define GA_SUMS 4
#elif defined(__AVX__)
typedef double ga_doubles __attribute__((vector_size(32), aligned(8), may_alias));
#define GA_SUMS 2
#else
typedef double ga_doubles __attribute__((vector_size(16), aligned(8), may_alias));
#define GA_SUMS 2
#endif

//@ ga_some
// Whether a comparison holds, or one of several.
GA_INLINE bool ga_some(bool which) { return which; }
template <class M> GA_INLINE bool ga_some(M which) {
    long long any = 0;
    for (unsigned l = 0; l < sizeof(M) / sizeof any; ++l) any |= which[l];
    return any != 0;
}

//@ ga_igamma_series
// 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..., as top / low, for N numbers V. Both grow, and are made smaller in time.
template <class V, int N> GA_INLINE void ga_igamma_series(const double* a, const double* x, double enough, double* sum) {
    constexpr int W = sizeof(V) / sizeof(double);
    const V one = V{} + 1.0, less = V{} + 1e-100;
    GA_LOCAL V m[N], y[N], power[N], top[N], low[N];
    for (int i = 0; i < N; ++i) m[i] = *(const V*)(a + i * W), y[i] = *(const V*)(x + i * W);
    for (int i = 0; i < N; ++i) power[i] = top[i] = low[i] = one;
    bool more = true;
    for (int turn = 0; more && turn < 2500; ++turn) {
        GA_LOCAL V p[N], t[N], q[N];
        for (int i = 0; i < N; ++i) p[i] = power[i], t[i] = top[i], q[i] = low[i];
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < N; ++i) {
                m[i] = m[i] + 1.0;
                p[i] = p[i] * y[i];
                t[i] = t[i] * m[i] + p[i];
                q[i] = q[i] * m[i];
            }
        more = false;
        for (int i = 0; i < N; ++i) {
            const auto on = power[i] > enough * top[i];
            const V by = q[i] > 1e100 ? less : one;
            power[i] = on ? p[i] * by : power[i];
            top[i] = on ? t[i] * by : top[i];
            low[i] = on ? q[i] * by : low[i];
            more |= ga_some(on);
        }
    }
    for (int i = 0; i < N; ++i) *(V*)(sum + i * W) = top[i] / low[i];
}

//@ ga_igamma_fraction
// 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...))), the same way.
template <class V, int N> GA_INLINE void ga_igamma_fraction(const double* a, const double* x, double enough, double* sum) {
    constexpr int W = sizeof(V) / sizeof(double);
    const V one = V{} + 1.0, less = V{} + 1e-50;
    GA_LOCAL V c[N], b[N], top[N], low[N], last_top[N], last_low[N];
    for (int i = 0; i < N; ++i) {
        c[i] = *(const V*)(a + i * W);
        b[i] = low[i] = *(const V*)(x + i * W) + 1.0 - c[i];
        top[i] = last_low[i] = one;
        last_top[i] = V{};
    }
    bool more = true;
    double n = 0.0;
    for (int turn = 0; more && turn < 2500; ++turn) {
        GA_LOCAL V t[N], q[N], u[N], r[N];
        for (int i = 0; i < N; ++i) t[i] = top[i], q[i] = low[i], u[i] = last_top[i], r[i] = last_low[i];
        for (int k = 0; k < 8; ++k) {
            n += 1.0;
            for (int i = 0; i < N; ++i) {
                b[i] = b[i] + 2.0;
                const V by = n * (c[i] - n), next_t = b[i] * t[i] + by * u[i], next_q = b[i] * q[i] + by * r[i];
                u[i] = t[i], r[i] = q[i], t[i] = next_t, q[i] = next_q;
            }
        }
        more = false;
        for (int i = 0; i < N; ++i) {
            const V here = top[i] * last_low[i], change = here - last_top[i] * low[i];
            const auto on = (change < 0.0 ? -change : change) > enough * here;
            const V by = q[i] > 1e50 ? less : one;
            top[i] = on ? t[i] * by : top[i];
            low[i] = on ? q[i] * by : low[i];
            last_top[i] = on ? u[i] * by : last_top[i];
            last_low[i] = on ? r[i] * by : last_low[i];
            more |= ga_some(on);
        }
    }
    for (int i = 0; i < N; ++i) *(V*)(sum + i * W) = top[i] / low[i];
}

//@ ga_igamma_kind
// Which way an element goes: 0 by the series, 1 by the fraction, 2 by itself. Smaller results may not be 1 - the other one.
template <bool UPPER> GA_INLINE int ga_igamma_kind(double a, double x) {
    const bool under = x < a + 1.0, alone = !(a > 0.0) | !(a <= 1e5) | !(x > 0.0) | !(x < GA_INF) | (UPPER & under & (a < 0.25));
    return alone ? 2 : under ? 0 : 1;
}

//@ ga_igamma_found
// The function from its sum, which times x^a e^-x / gamma(a + 1) is P(a, x), of the fraction Q(a, x) / a.
template <bool UPPER, int KIND> GA_INLINE float ga_igamma_found(double a, double x, double sum) {
    const double power = a * ga_log_of(x) - x - ga_lgamma_above(a + 1.0);
    const double y = ga_exp_wide(ga_bounded(power, 700.0)) * (KIND == 1 ? a * sum : sum);
    return (float)(UPPER == (KIND == 1) ? y : 1.0 - y);
}

//@ ga_igamma_sums
// Sums of a kind. Where one minus a sum is the result, which may be small, it ends at a double's end. Beyond 1e6 every x has the
// same results.
template <bool UPPER, int KIND, class V, int N> GA_INLINE void ga_igamma_sums(const double* a, const double* x, double* sum) {
    if constexpr (KIND == 0) ga_igamma_series<V, N>(a, x, UPPER ? 1e-17 : 1e-11, sum);
    else ga_igamma_fraction<V, N>(a, x, 1e-10, sum);
}

//@ ga_igamma_of_float ga_igamma_of_kind
template <bool UPPER, int KIND> GA_INLINE float ga_igamma_of_kind(double a, double x) {
    double sum;
    x = x < 1e6 ? x : 1e6;
    ga_igamma_sums<UPPER, KIND, double, 1>(&a, &x, &sum);
    return ga_igamma_found<UPPER, KIND>(a, x, sum);
}
template <bool UPPER> GA_OUTLINE float ga_igamma_of_float(float a, float x) {
    const int kind = ga_igamma_kind<UPPER>(a, x);
    if (kind == 0) return ga_igamma_of_kind<UPPER, 0>(a, x);
    if (kind == 1) return ga_igamma_of_kind<UPPER, 1>(a, x);
    if constexpr (UPPER) return (float)ga_igammac((double)a, (double)x);
    else return (float)ga_igamma((double)a, (double)x);
}

//@ ga_igamma_float if ga_igamma
GA_INLINE float ga_igamma(float a, float x) { return ga_igamma_of_float<false>(a, x); }

//@ ga_igammac_float if ga_igammac
GA_INLINE float ga_igammac(float a, float x) { return ga_igamma_of_float<true>(a, x); }

//@ ga_igamma_of_floats ga_igamma_of_those
// Of many elements those of a kind, side by side.
template <bool UPPER, int KIND, int MOST>
static void ga_igamma_of_those(
    const float* GA_ALONE a, const float* GA_ALONE x, const int* GA_ALONE which, int count, float* GA_ALONE found) {
    constexpr int W = sizeof(ga_doubles) / sizeof(double) * GA_SUMS;
    GA_LOCAL double own_a[MOST + W], own_x[MOST + W], sum[MOST + W];
    GA_LOCAL float y[MOST + W];
    if (count == 0) return;
    // The last one fills what is left of the last registers.
    const int filled = (count + W - 1) / W * W;
    for (int i = 0; i < filled; ++i) {
        const int l = which[i < count ? i : count - 1];
        own_a[i] = a[l], own_x[i] = x[l] < 1e6f ? x[l] : 1e6f;
    }
    for (int i = 0; i < filled; i += W) ga_igamma_sums<UPPER, KIND, ga_doubles, GA_SUMS>(own_a + i, own_x + i, sum + i);
    for (int i = 0; i < filled; ++i) y[i] = ga_igamma_found<UPPER, KIND>(own_a[i], own_x[i], sum[i]);
    for (int i = 0; i < count; ++i) found[which[i]] = y[i];
}
template <bool UPPER, class G>
static void ga_igamma_of_floats(const G& given, ga_index begin, ga_index end, float* GA_ALONE found) {
    constexpr int MOST = 256;
    GA_LOCAL float a[MOST], x[MOST];
    GA_LOCAL int kind[MOST], which[3][MOST];
    for (; begin < end; begin += MOST, found += MOST) {
        const int many = (int)ga_least(end - begin, MOST);
        for (int i = 0; i < many; ++i) {
            const auto one = given(begin + i);
            a[i] = one.a, x[i] = one.b;
        }
        for (int i = 0; i < many; ++i) kind[i] = ga_igamma_kind<UPPER>(a[i], x[i]);
        GA_LOCAL int count[3] = {};
        for (int i = 0; i < many; ++i) which[kind[i]][count[kind[i]]++] = i;
        ga_igamma_of_those<UPPER, 0, MOST>(a, x, which[0], count[0], found);
        ga_igamma_of_those<UPPER, 1, MOST>(a, x, which[1], count[1], found);
        for (int i = 0; i < count[2]; ++i) found[which[2][i]] = ga_igamma_of_float<UPPER>(a[which[2][i]], x[which[2][i]]);
    }
}

//@ ga_igamma_for_many
// Of elements begin ... end, whose operands `given` tells.
template <class G, class R> static void ga_igamma_for_many(const G& given, ga_index begin, ga_index end, R* GA_ALONE found) {
    if constexpr (__is_same(R, float)) ga_igamma_of_floats<false>(given, begin, end, found);
    else
        for (ga_index i = begin; i < end; ++i) found[i - begin] = (R)ga_igamma(given(i).a, given(i).b);
}

//@ ga_igammac_for_many
template <class G, class R> static void ga_igammac_for_many(const G& given, ga_index begin, ga_index end, R* GA_ALONE found) {
    if constexpr (__is_same(R, float)) ga_igamma_of_floats<true>(given, begin, end, found);
    else
        for (ga_index i = begin; i < end; ++i) found[i - begin] = (R)ga_igammac(given(i).a, given(i).b);
}
