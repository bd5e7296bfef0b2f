// Singular values and eigenvalues of small matrices, a matrix a task, without calls of a library.
//
// The steps are those of LAPACK for matrices of this size (gebd2 and bdsqr; sytd2 and steqr), so that vectors have the signs
// that it gives them. Squares of floats are doubles, which neither overflow nor vanish.

//@ ga_signed
template <class T> GA_INLINE T ga_signed(T size, T sign) { return sign < 0 || (sign == 0 && 1 / sign < 0) ? -ga_abs(size) : ga_abs(size); }

//@ ga_plane
// The rotation that takes (f, g) to (r, 0): its cosine and sine, and r, which has the sign of f.
template <class T> GA_INLINE void ga_plane(T f, T g, T& c, T& s, T& r) {
    if (g == 0 || f == 0) {
        c = g == 0;
        s = g == 0 ? (T)0 : ga_signed((T)1, g);
        r = g == 0 ? f : ga_abs(g);
        return;
    }
    const double a = f, b = g, sum = a * a + b * b;
    if (sum > 1e-280 && sum < 1e280) {
        const T length = (T)ga_sqrt(sum);
        c = ga_abs(f) / length;
        r = ga_signed(length, f);
        s = g / r;
    } else {
        const T scale = ga_abs(f) > ga_abs(g) ? ga_abs(f) : ga_abs(g), x = f / scale, y = g / scale;
        const T length = ga_sqrt(x * x + y * y);
        c = ga_abs(x) / length;
        r = ga_signed(length, f);
        s = y / r;
        r *= scale;
    }
}

//@ ga_rotate
// Two rows of N numbers, turned.
template <int N, class T> GA_INLINE void ga_rotate(T* GA_ALONE x, T* GA_ALONE y, T c, T s) {
    for (int i = 0; i < N; ++i) {
        const T a = x[i], b = y[i];
        x[i] = c * a + s * b;
        y[i] = c * b - s * a;
    }
}

//@ ga_reflector
// The reflection 1 - t v v^T that takes COUNT numbers, `step` apart, to their first alone: v, whose first is 1, but for that
// one, which is what remains; and t.
template <class T> GA_INLINE T ga_reflector(T* x, int count, int step) {
    double sum = 0;
    for (int i = 1; i < count; ++i) sum += (double)x[i * step] * x[i * step];
    if (sum == 0) return 0;
    const T first = x[0], left = -ga_signed((T)ga_sqrt((double)first * first + sum), first), scale = 1 / (first - left);
    for (int i = 1; i < count; ++i) x[i * step] *= scale;
    x[0] = left;
    return (left - first) / left;
}

//@ ga_scale_of
// A power of two by which numbers as large as this are divided, so that what is made of them is neither too large nor lost; 0
// for nan and inf.
template <class T> GA_INLINE T ga_scale_of(T largest) {
    constexpr T high = sizeof(T) == 4 ? (T)0x1p60 : (T)0x1p500;
    if (!(largest - largest == 0)) return 0;
    return largest > high ? high : largest < 1 / high && largest > 0 ? 1 / high : (T)1;
}

//@ ga_triangle
// The singular values of the triangle (f, g; 0, h), the larger one last, and the rotations of its rows and columns.
template <class T>
GA_INLINE void ga_triangle(T f, T g, T h, T& least, T& most, T& sr, T& cr, T& sl, T& cl) {
    const bool exchanged = ga_abs(h) > ga_abs(f);
    const T ft = exchanged ? h : f, ht = exchanged ? f : h, fa = ga_abs(ft), ha = ga_abs(ht), side = ga_abs(g);
    int largest = exchanged ? 3 : 1;
    T clt = 1, crt = 1, slt = 0, srt = 0;
    least = ha;
    most = fa;
    if (side > fa) largest = 2;
    if (side > fa && fa / side < (sizeof(T) == 4 ? (T)0x1p-24 : (T)0x1p-53)) {
        most = side;
        least = ha > 1 ? fa / (side / ha) : fa / side * ha;
        slt = ht / g;
        srt = 1;
        crt = ft / g;
    } else if (side != 0) {
        const T d = fa - ha, m = g / ft, l = d == fa ? 1 : d / fa, t = 2 - l, s = ga_sqrt(t * t + m * m);
        const T r = l == 0 ? ga_abs(m) : ga_sqrt(l * l + m * m), a = (T)0.5 * (s + r);
        T u;
        least = ha / a;
        most = fa * a;
        if (m * m == 0)
            u = l == 0 ? ga_signed((T)2, ft) * ga_signed((T)1, g) : g / ga_signed(d, ft) + m / t;
        else
            u = (m / (s + t) + m / (r + l)) * (1 + a);
        const T q = ga_sqrt(u * u + 4);
        crt = 2 / q;
        srt = u / q;
        clt = (crt + srt * m) / a;
        slt = ht / ft * srt / a;
    }
    cl = exchanged ? srt : clt;
    sl = exchanged ? crt : slt;
    cr = exchanged ? slt : crt;
    sr = exchanged ? clt : srt;
    const T sign = largest == 1   ? ga_signed((T)1, cr) * ga_signed((T)1, cl) * ga_signed((T)1, f)
                        : largest == 2 ? ga_signed((T)1, sr) * ga_signed((T)1, cl) * ga_signed((T)1, g)
                                       : ga_signed((T)1, sr) * ga_signed((T)1, sl) * ga_signed((T)1, h);
    most = ga_signed(most, sign);
    least = ga_signed(least, sign * ga_signed((T)1, f) * ga_signed((T)1, h));
}

//@ ga_least_of_triangle
// The smaller singular value of a triangle.
template <class T> GA_INLINE T ga_least_of_triangle(T f, T g, T h) {
    const T fa = ga_abs(f), side = ga_abs(g), ha = ga_abs(h), low = fa < ha ? fa : ha, high = fa < ha ? ha : fa;
    if (low == 0) return 0;
    const T s = 1 + low / high, t = (high - low) / high;
    if (side < high) {
        const T u = side / high * (side / high);
        return low * (2 / (ga_sqrt(s * s + u) + ga_sqrt(t * t + u)));
    }
    const T u = high / side;
    if (u == 0) return low * high / side;
    return 2 * (low * (1 / (ga_sqrt(1 + s * u * (s * u)) + ga_sqrt(1 + t * u * (t * u))))) * u;
}

//@ ga_bidiagonal
// Singular values of a matrix with diagonal d and e above it, in falling order, by QR steps; rows of `left` and `right` turn with
// them, where they are wanted. False: the iteration does not end.
template <int N, bool WANTED, class T> static bool ga_bidiagonal(T* d, T* e, T* left, T* right) {
    constexpr T epsilon = sizeof(T) == 4 ? (T)0x1p-24 : (T)0x1p-53;
    const T few = ga_sqrt(ga_sqrt(ga_sqrt(1 / epsilon))), small = epsilon * (few < 10 ? 10 : few > 100 ? 100 : few);
    T least = ga_abs(d[0]), mu = least;
    for (int i = 1; i < N && least > 0; ++i) {
        mu = ga_abs(d[i]) * (mu / (mu + ga_abs(e[i - 1])));
        least = mu < least ? mu : least;
    }
    T nothing = small * (least / ga_sqrt((T)N));
    const T tiny = 6 * N * N * (sizeof(T) == 4 ? (T)0x1p-126 : (T)0x1p-1022);
    nothing = nothing > tiny ? nothing : tiny;
    // Rotations of neighbours.
    const auto turned = [&](T* of, int i, T c, T s) {
        if constexpr (WANTED) ga_rotate<N>(of + i * N, of + (i + 1) * N, c, s);
    };
    int m = N - 1, before = -1, ended = -1;
    int steps = 0;
    bool down = true;
    while (m > 0) {
        if (steps > 6 * N * N) return false;
        // The block that ends at m, in which nothing beside the diagonal vanishes.
        T most = ga_abs(d[m]);
        int l = m;
        while (l > 0 && ga_abs(e[l - 1]) > nothing) {
            --l;
            const T a = ga_abs(d[l]), b = ga_abs(e[l]);
            most = a > most ? a : most;
            most = b > most ? b : most;
        }
        if (l > 0) e[l - 1] = 0;
        if (l == m) {
            --m;
            continue;
        }
        if (l == m - 1) {
            T sr, cr, sl, cl, low, high;
            ga_triangle(d[l], e[l], d[m], low, high, sr, cr, sl, cl);
            d[l] = high;
            e[l] = 0;
            d[m] = low;
            turned(right, l, cr, sr);
            turned(left, l, cl, sl);
            m -= 2;
            continue;
        }
        // A new block: from its larger end to its smaller one.
        if (l > ended || m < before) down = ga_abs(d[l]) >= ga_abs(d[m]);
        const int end = down ? m - 1 : l;
        if (ga_abs(e[end]) <= small * ga_abs(d[down ? m : l])) {
            e[end] = 0;
            continue;
        }
        mu = ga_abs(d[down ? l : m]);
        least = mu;
        bool ends = false;
        for (int k = 0; k < m - l && !ends; ++k) {
            const int i = down ? l + k : m - 1 - k;
            if (ga_abs(e[i]) <= small * mu) {
                e[i] = 0;
                ends = true;
            } else {
                mu = ga_abs(d[down ? i + 1 : i]) * (mu / (mu + ga_abs(e[i])));
                least = mu < least ? mu : least;
            }
        }
        if (ends) continue;
        before = l;
        ended = m;
        // A shift, unless it would cost the accuracy of the least value.
        T shift = 0;
        if (N * small * (least / most) > (epsilon > (T)0.01 * small ? epsilon : (T)0.01 * small)) {
            const T first = ga_abs(d[down ? l : m]);
            shift = down ? ga_least_of_triangle(d[m - 1], e[m - 1], d[m]) : ga_least_of_triangle(d[l], e[l], d[l + 1]);
            if (first > 0 && shift / first * (shift / first) < epsilon) shift = 0;
        }
        steps += m - l;
        T c, s, r;
        if (shift == 0) {
            T oc = 1, os = 0;
            c = 1;
            for (int k = 0; k < m - l; ++k) {
                const int i = down ? l + k : m - k, to = down ? i + 1 : i - 1, b = down ? i : i - 1;
                ga_plane(d[i] * c, e[b], c, s, r);
                if (k) e[down ? b - 1 : b + 1] = os * r;
                ga_plane(oc * r, d[to] * s, oc, os, d[i]);
                turned(down ? right : left, b, c, down ? s : -s);
                turned(down ? left : right, b, oc, down ? os : -os);
            }
            const int last = down ? m : l;
            const T h = d[last] * c;
            d[last] = h * oc;
            e[end] = h * os;
        } else {
            const int begin = down ? l : m;
            T f = (ga_abs(d[begin]) - shift) * (ga_signed((T)1, d[begin]) + shift / d[begin]), g = e[down ? l : m - 1];
            for (int k = 0; k < m - l; ++k) {
                const int i = down ? l + k : m - k, to = down ? i + 1 : i - 1, b = down ? i : i - 1, next = down ? b + 1 : b - 1;
                ga_plane(f, g, c, s, r);
                if (k) e[down ? b - 1 : b + 1] = r;
                f = c * d[i] + s * e[b];
                e[b] = c * e[b] - s * d[i];
                g = s * d[to];
                d[to] = c * d[to];
                T oc, os;
                ga_plane(f, g, oc, os, r);
                d[i] = r;
                f = oc * e[b] + os * d[to];
                d[to] = oc * d[to] - os * e[b];
                if (k < m - l - 1) {
                    g = os * e[next];
                    e[next] = oc * e[next];
                }
                turned(down ? right : left, b, c, down ? s : -s);
                turned(down ? left : right, b, oc, down ? os : -os);
            }
            e[end] = f;
        }
        if (ga_abs(e[end]) <= nothing) e[end] = 0;
    }
    for (int i = 0; i < N; ++i) {
        if (!(d[i] < 0 || (d[i] == 0 && 1 / d[i] < 0))) continue;
        d[i] = -d[i];
        if constexpr (WANTED)
            for (int j = 0; j < N; ++j) right[i * N + j] = -right[i * N + j];
    }
    // The least to the end, again and again.
    for (int last = N - 1; last > 0; --last) {
        int at = 0;
        for (int j = 1; j <= last; ++j)
            if (d[j] <= d[at]) at = j;
        if (at == last) continue;
        const T kept = d[at];
        d[at] = d[last];
        d[last] = kept;
        if constexpr (WANTED)
            for (int j = 0; j < N; ++j) {
                const T a = left[at * N + j], b = right[at * N + j];
                left[at * N + j] = left[last * N + j];
                right[at * N + j] = right[last * N + j];
                left[last * N + j] = a;
                right[last * N + j] = b;
            }
    }
    return true;
}

//@ ga_svd
// Of N x N matrices: COUNT singular values from FIRST on, and, if they are wanted, the vectors of those or, if FULL, of all; nan
// where an element is not finite, or where the iteration does not end.
template <class T, bool WIDE, int N, int FIRST, int COUNT, bool FULL, bool WANTED>
static void ga_svd(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE values, T* GA_ALONE u, T* GA_ALONE vt) {
    constexpr int BEGIN = FULL ? 0 : FIRST, VECTORS = FULL ? N : COUNT;
    typedef typename ga_wider<T, WIDE>::type R;
    GA_LOCAL R a[N * N], d[N], e[N], left[WANTED ? N * N : 1], right[WANTED ? N * N : 1], of_rows[N], of_columns[N];
    for (ga_index task = first; task < last; ++task) {
        R largest = 0;
        for (int i = 0; i < N * N; ++i) {
            a[i] = x[task * N * N + i];
            const R size = ga_abs(a[i]);
            largest = size <= largest ? largest : size;
        }
        // nan is not larger than another: a sum finds it.
        R sum = 0;
        for (int i = 0; i < N * N; ++i) sum += a[i] - a[i];
        const R scale = sum == 0 ? ga_scale_of(largest) : 0;
        bool found = scale != 0;
        if (found && scale != 1)
            for (int i = 0; i < N * N; ++i) a[i] /= scale;
        // Reflections from both sides, until only two diagonals are left.
        for (int k = 0; found && k < N; ++k) {
            const R t = ga_reflector(a + k * N + k, N - k, N);
            of_rows[k] = t;
            d[k] = a[k * N + k];
            for (int j = k + 1; t != 0 && j < N; ++j) {
                R along = a[k * N + j];
                for (int i = k + 1; i < N; ++i) along += a[i * N + k] * a[i * N + j];
                along *= t;
                a[k * N + j] -= along;
                for (int i = k + 1; i < N; ++i) a[i * N + j] -= along * a[i * N + k];
            }
            if (k == N - 1) break;
            const R q = of_columns[k] = ga_reflector(a + k * N + k + 1, N - k - 1, 1);
            e[k] = a[k * N + k + 1];
            for (int i = k + 1; q != 0 && i < N; ++i) {
                R along = a[i * N + k + 1];
                for (int j = k + 2; j < N; ++j) along += a[k * N + j] * a[i * N + j];
                along *= q;
                a[i * N + k + 1] -= along;
                for (int j = k + 2; j < N; ++j) a[i * N + j] -= along * a[k * N + j];
            }
        }
        if constexpr (WANTED)
            for (int i = 0; i < N * N; ++i) left[i] = right[i] = i % (N + 1) == 0;
        // Of one number, the left vector has the sign.
        if (N == 1 && WANTED && found) left[0] = ga_signed((R)1, d[0]), d[0] = ga_abs(d[0]);
        found = found && ga_bidiagonal<N, WANTED>(d, e, left, right);
        for (int c = 0; c < COUNT; ++c) values[task * COUNT + c] = found ? (T)(d[FIRST + c] * scale) : (T)GA_NAN;
        if constexpr (WANTED) {
            // The reflections of rows and columns, undone from the last one to the first.
            for (int r = 0; found && r < N; ++r)
                for (int k = N - 1; k >= 0; --k) {
                    R *const l = left + r * N, along = l[k];
                    for (int i = k + 1; i < N; ++i) along += a[i * N + k] * l[i];
                    along *= of_rows[k];
                    l[k] -= along;
                    for (int i = k + 1; i < N; ++i) l[i] -= along * a[i * N + k];
                    if (k == 0) continue;
                    R *const b = right + r * N, across = b[k];
                    for (int j = k + 1; j < N; ++j) across += a[(k - 1) * N + j] * b[j];
                    across *= of_columns[k - 1];
                    b[k] -= across;
                    for (int j = k + 1; j < N; ++j) b[j] -= across * a[(k - 1) * N + j];
                }
            for (int i = 0; i < N; ++i)
                for (int c = 0; c < VECTORS; ++c) {
                    u[(task * N + i) * VECTORS + c] = found ? (T)left[(BEGIN + c) * N + i] : (T)GA_NAN;
                    vt[(task * VECTORS + c) * N + i] = found ? (T)right[(BEGIN + c) * N + i] : (T)GA_NAN;
                }
        }
    }
}

//@ ga_singular_values
template <class T, bool WIDE, int N, int FIRST, int COUNT>
static void ga_singular_values(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE values) {
    ga_svd<T, WIDE, N, FIRST, COUNT, false, false>(first, last, x, values, nullptr, nullptr);
}

//@ ga_symmetric
// The eigenvalues of (a, b; b, c), the one of larger size first, and the vector of that one.
template <class T> GA_INLINE void ga_symmetric(T a, T b, T c, T& most, T& least, T& cs, T& sn) {
    const T sum = a + c, df = a - c, size = ga_abs(df), tb = b + b, ab = ga_abs(tb);
    const T high = ga_abs(a) > ga_abs(c) ? a : c, low = ga_abs(a) > ga_abs(c) ? c : a;
    const T larger = size > ab ? size : ab, part = larger == 0 ? (T)0 : (size > ab ? ab : size) / larger;
    const T root = size == ab ? ab * ga_sqrt((T)2) : larger * ga_sqrt(1 + part * part);
    int one = sum < 0 ? -1 : 1;
    if (sum != 0) {
        most = (T)0.5 * (sum + (T)one * root);
        least = high / most * low - b / most * b;
    } else {
        most = (T)0.5 * root;
        least = -most;
    }
    const int two = df >= 0 ? 1 : -1;
    const T cot = df + (T)two * root;
    if (ga_abs(cot) > ab) {
        const T ct = -tb / cot;
        sn = 1 / ga_sqrt(1 + ct * ct);
        cs = ct * sn;
    } else if (ab == 0) {
        cs = 1;
        sn = 0;
    } else {
        const T tn = -cot / tb;
        cs = 1 / ga_sqrt(1 + tn * tn);
        sn = tn * cs;
    }
    if (one == two) {
        const T kept = cs;
        cs = -sn;
        sn = kept;
    }
}

//@ ga_tridiagonal
// Eigenvalues of a matrix with diagonal d and e beside it, in rising order, by QL or QR steps; rows of `vectors` turn with them,
// where they are wanted. False: the iteration does not end.
template <int N, bool WANTED, class T> static bool ga_tridiagonal(T* d, T* e, T* vectors) {
    constexpr T epsilon = sizeof(T) == 4 ? (T)0x1p-24 : (T)0x1p-53, tiny = sizeof(T) == 4 ? (T)0x1p-126 : (T)0x1p-1022;
    const auto turned = [&](int i, T c, T s) {
        if constexpr (WANTED) ga_rotate<N>(vectors + i * N, vectors + (i + 1) * N, c, s);
    };
    int next = 0;
    int steps = 0;
    while (next < N) {
        // A block that ends where nothing is beside the diagonal.
        if (next > 0) e[next - 1] = 0;
        int m = next;
        while (m < N - 1 && e[m] != 0) {
            if (ga_abs(e[m]) <= ga_sqrt(ga_abs(d[m])) * ga_sqrt(ga_abs(d[m + 1])) * epsilon) {
                e[m] = 0;
                break;
            }
            ++m;
        }
        int l = next, end = m;
        next = m + 1;
        if (l == end) continue;
        // From its smaller end on.
        if (ga_abs(d[end]) < ga_abs(d[l])) {
            end = l;
            l = m;
        }
        // Along the block: `up` is where the other end lies, and e[at(i)] between i and its neighbour there.
        const int up = end > l ? 1 : -1;
        const auto at = [&](int i) -> int { return up > 0 ? i : i - 1; };
        while (up > 0 ? l <= end : l >= end) {
            for (m = l; m != end; m += up) {
                const T size = ga_abs(e[at(m)]);
                if (size * size <= epsilon * epsilon * ga_abs(d[m]) * ga_abs(d[m + up]) + tiny) break;
            }
            if (m != end) e[at(m)] = 0;
            T p = d[l], c = 1, s = 1, r;
            if (m == l) {
                l += up;
                continue;
            }
            if (m == l + up) {
                const int low = up > 0 ? l : m;
                T most, least;
                ga_symmetric(d[low], e[low], d[low + 1], most, least, c, s);
                turned(low, c, s);
                d[low] = most;
                d[low + 1] = least;
                e[low] = 0;
                l += 2 * up;
                continue;
            }
            if (steps++ == 30 * N) return false;
            T g = (d[l + up] - p) / (2 * e[at(l)]);
            r = ga_sqrt(g * g + 1);
            if (!(r - r == 0)) r = ga_abs(g);
            g = d[m] - p + e[at(l)] / (g + ga_signed(r, g));
            p = 0;
            s = 1;
            c = 1;
            for (int i = m - up; up > 0 ? i >= l : i <= l; i -= up) {
                const T f = s * e[at(i)], b = c * e[at(i)];
                ga_plane(g, f, c, s, r);
                if (i != m - up) e[at(i + up)] = r;
                g = d[i + up] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r;
                d[i + up] = g + p;
                g = c * r - b;
                turned(up > 0 ? i : i - 1, c, up > 0 ? -s : s);
            }
            d[l] -= p;
            e[at(l)] = g;
        }
    }
    // The least to the front, again and again.
    for (int i = 0; i < N - 1; ++i) {
        int least = i;
        for (int j = i + 1; j < N; ++j)
            if (d[j] < d[least]) least = j;
        if (least == i) continue;
        const T kept = d[i];
        d[i] = d[least];
        d[least] = kept;
        if constexpr (WANTED)
            for (int j = 0; j < N; ++j) {
                const T a = vectors[i * N + j];
                vectors[i * N + j] = vectors[least * N + j];
                vectors[least * N + j] = a;
            }
    }
    return true;
}

//@ ga_eigh_of_few
// COUNT vectors (as columns), if they are wanted, and values, from FIRST on, of symmetric N x N matrices, of which one triangle
// is read; nan where an element is not finite, or where the iteration does not end.
template <class T, bool WIDE, int N, bool LOWER, int FIRST, int COUNT, bool WANTED>
static void ga_eigh_of_few(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE vectors, T* GA_ALONE values) {
    typedef typename ga_wider<T, WIDE>::type R;
    GA_LOCAL R a[N * N], d[N], e[N], weight[N], v[WANTED ? N * N : 1], w[N];
    for (ga_index task = first; task < last; ++task) {
        // As a lower triangle from the front, or an upper one, which is reduced from the end: then both axes are reversed.
        R largest = 0, sum = 0;
        for (int i = 0; i < N; ++i)
            for (int j = 0; j < N; ++j) {
                const T value = x[(task * N + (LOWER ? i : N - 1 - i)) * N + (LOWER ? j : N - 1 - j)];
                a[i * N + j] = value;
                if (j > i) continue;
                sum += value - value;
                largest = ga_abs(a[i * N + j]) <= largest ? largest : ga_abs(a[i * N + j]);
            }
        // As in the whole matrix: what is not finite in the other triangle counts too.
        for (int i = 0; i < N * N; ++i) sum += a[i] - a[i];
        const R scale = sum == 0 ? ga_scale_of(largest) : (R)0;
        bool found = scale != 0;
        if (found && scale != 1)
            for (int i = 0; i < N * N; ++i) a[i] /= scale;
        for (int k = 0; found && k < N - 1; ++k) {
            const R t = weight[k] = ga_reflector(a + (k + 1) * N + k, N - k - 1, N);
            e[k] = a[(k + 1) * N + k];
            d[k] = a[k * N + k];
            if (t == 0) continue;
            a[(k + 1) * N + k] = 1;
            // w = t A v - (t/2 v.w) v, and A - v w^T - w v^T.
            R along = 0;
            for (int i = k + 1; i < N; ++i) {
                R product = 0;
                for (int j = k + 1; j < N; ++j) product += a[(i > j ? i : j) * N + (i > j ? j : i)] * a[j * N + k];
                w[i] = t * product;
                along += w[i] * a[i * N + k];
            }
            along *= (R)-0.5 * t;
            for (int i = k + 1; i < N; ++i) w[i] += along * a[i * N + k];
            for (int i = k + 1; i < N; ++i)
                for (int j = k + 1; j <= i; ++j) a[i * N + j] -= a[i * N + k] * w[j] + w[i] * a[j * N + k];
        }
        d[N - 1] = a[N * N - 1];
        if constexpr (!LOWER)
            for (int i = 0; i < N / 2; ++i) {
                const R kept = d[i];
                d[i] = d[N - 1 - i];
                d[N - 1 - i] = kept;
                if (2 * i >= N - 2) continue;
                const R beside = e[i];
                e[i] = e[N - 2 - i];
                e[N - 2 - i] = beside;
            }
        if constexpr (WANTED)
            for (int i = 0; i < N * N; ++i) v[i] = i % (N + 1) == 0;
        found = found && ga_tridiagonal<N, WANTED>(d, e, v);
        for (int c = 0; c < COUNT; ++c) values[task * COUNT + c] = found ? (T)(d[FIRST + c] * scale) : (T)GA_NAN;
        if constexpr (WANTED) {
            for (int c = FIRST; found && c < FIRST + COUNT; ++c)
                for (int k = N - 2; k >= 0; --k) {
                    R* const of = v + c * N;
                    // Counted as the triangle is: from its front.
                    const auto at = [&](int i) -> int { return LOWER ? i : N - 1 - i; };
                    R along = of[at(k + 1)];
                    for (int i = k + 2; i < N; ++i) along += a[i * N + k] * of[at(i)];
                    along *= weight[k];
                    of[at(k + 1)] -= along;
                    for (int i = k + 2; i < N; ++i) of[at(i)] -= along * a[i * N + k];
                }
            for (int i = 0; i < N; ++i)
                for (int c = 0; c < COUNT; ++c)
                    vectors[(task * N + i) * COUNT + c] = found ? (T)v[(FIRST + c) * N + i] : (T)GA_NAN;
        }
    }
}
