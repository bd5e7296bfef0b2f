// Products of small matrices by a whole warp: what tensor cores do, and shuffles where there are none.

//@ ga_fragment
// A lane's part of a matrix of 16 x 16 numbers of 16 bits, two neighbours a word, or of 16 x 8 of 32 bits: of each
// quarter, which has 8 rows of 4 words, lane l has word l % 4 of row l / 4.
struct ga_fragment { unsigned w[4]; };

//@ ga_read_fragment
// Four matrices of 8 rows of 4 words: lane l says where row l % 8 of matrix l / 8 is, in shared memory.
GA_INLINE ga_fragment ga_read_fragment(const void* row) {
    ga_fragment x;
#ifndef GA_HOST
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
#else
    const unsigned lane = threadIdx.x % 32u;
    unsigned long long rows[32];
    sim_all((unsigned long long)row, rows);
    for (unsigned m = 0; m < 4u; ++m) x.w[m] = ((const unsigned*)rows[m * 8u + lane / 4u])[lane % 4u];
#endif
    return x;
}

//@ ga_read_turned
// The same, each matrix of 8 x 8 numbers of 16 bits transposed.
GA_INLINE ga_fragment ga_read_turned(const void* row) {
    ga_fragment x;
#ifndef GA_HOST
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
#else
    const unsigned lane = threadIdx.x % 32u;
    unsigned long long rows[32];
    sim_all((unsigned long long)row, rows);
    for (unsigned m = 0; m < 4u; ++m) {
        const unsigned first = m * 8u + lane % 4u * 2u;
        const auto one = (const unsigned short*)rows[first], two = (const unsigned short*)rows[first + 1u];
        x.w[m] = one[lane / 4u] | (unsigned)two[lane / 4u] << 16;
    }
#endif
    return x;
}

//@ ga_two
// Two floats as neighbours of 16 bits.
template <class T> GA_INLINE unsigned ga_two(float low, float high) { return T(low).bits | (unsigned)T(high).bits << 16; }

//@ ga_two_f16 if ga_two ga_f16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ unsigned ga_two<ga_f16>(float low, float high) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
#endif

//@ ga_two_bf16 if ga_two ga_bf16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ unsigned ga_two<ga_bf16>(float low, float high) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
#endif

//@ ga_as_fragment
// Sums of two products beside each other, as the rows of the next one.
template <class T> GA_INLINE ga_fragment ga_as_fragment(const float* upper, const float* lower) {
    return {{ga_two<T>(upper[0], upper[1]), ga_two<T>(lower[0], lower[1]),
             ga_two<T>(upper[2], upper[3]), ga_two<T>(lower[2], lower[3])}};
}

//@ ga_tf32
// A float with ten bits behind the point, halves away from zero: what tensor cores take.
GA_INLINE unsigned ga_tf32(float x) {
    unsigned bits;
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#else
    bits = __float_as_uint(x);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & 0xffffe000u;
#endif
    return bits;
}

//@ ga_all_tf32
template <int N> GA_INLINE ga_vec<float, N> ga_all_tf32(ga_vec<float, N> x) {
#pragma unroll
    for (float& v : x.v) v = __uint_as_float(ga_tf32(v));
    return x;
}

//@ ga_as_fragment_float if ga_as_fragment ga_tf32
// Columns 2 k and 2 k + 1 as k and k + 4: the rows of the other operand are taken in that order, too.
template <> __device__ __forceinline__ ga_fragment ga_as_fragment<float>(const float* upper, const float* lower) {
    return {{ga_tf32(upper[0]), ga_tf32(lower[0]), ga_tf32(upper[1]), ga_tf32(lower[1])}};
}

//@ ga_add_product
// Add the product of rows a, 16 x 16 (of float: 16 x 8), and columns b, 8 of them, to sums in float. Lane l has two of
// them in row l / 4 (upper) and two in row l / 4 + 8 (lower), in columns l % 4 * 2 and the next.
template <class T> GA_INLINE void ga_add_product(float* upper, float* lower, const ga_fragment& a, unsigned b0, unsigned b1) {
    const unsigned lane = threadIdx.x % 32u;
    const unsigned mine[6] = {a.w[0], a.w[1], a.w[2], a.w[3], b0, b1};
#ifdef GA_HOST
    unsigned all[6][32];
    for (unsigned w = 0; w < 6u; ++w) sim_all(mine[w], all[w]);
    const auto word = [&](unsigned w, unsigned from) { return all[w][from]; };
#else
    const auto word = [&](unsigned w, unsigned from) { return __shfl_sync(0xffffffffu, mine[w], from); };
#endif
    const auto add = [](float& sum, unsigned one, unsigned two) {
        if constexpr (sizeof(T) == 4) sum = fmaf(__uint_as_float(one), __uint_as_float(two), sum);
        else {
            T x[4];
            x[0].bits = (unsigned short)one, x[1].bits = (unsigned short)(one >> 16);
            x[2].bits = (unsigned short)two, x[3].bits = (unsigned short)(two >> 16);
            sum = fmaf(ga_value(x[1]), ga_value(x[3]), fmaf(ga_value(x[0]), ga_value(x[2]), sum));
        }
    };
#pragma unroll
    for (unsigned k = 0; k < 8u; ++k) {
        const unsigned row = lane / 4u * 4u + k % 4u, upper_word = word(k / 4u * 2u, row), lower_word = word(k / 4u * 2u + 1u, row);
#pragma unroll
        for (unsigned e = 0; e < 2u; ++e) {
            const unsigned column = word(4u + k / 4u, (lane % 4u * 2u + e) * 4u + k % 4u);
            add(upper[e], upper_word, column), add(lower[e], lower_word, column);
        }
    }
}

//@ GA_TENSOR if ga_add_product
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
#define GA_TENSOR(T, instruction)                                                                     \
    template <> __device__ __forceinline__ void ga_add_product<T>(                                    \
        float* upper, float* lower, const ga_fragment& a, unsigned b0, unsigned b1) {                 \
        asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
                     : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])                 \
                     : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b0), "r"(b1));         \
    }
GA_TENSOR(float, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
#endif

//@ ga_add_product_f16 if ga_add_product ga_f16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
GA_TENSOR(ga_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
#endif

//@ ga_add_product_bf16 if ga_add_product ga_bf16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
GA_TENSOR(ga_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
#endif
