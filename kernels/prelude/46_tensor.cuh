// Products of small matrices by a whole warp: what tensor cores do, and shuffles where there are none.

//@ ga_fragment
// A lane's part of a matrix of 16 x 16 numbers of 16 bits: two neighbours a word. Of each quarter, 8 x 8, lane l has
// the columns l % 4 * 2 and the next in row l / 4.
struct ga_fragment { unsigned w[4]; };

//@ ga_read_fragment
// Four matrices of 8 rows of 8 numbers: lane l says where row l % 8 of matrix l / 8 is, in shared memory.
GA_INLINE ga_fragment ga_read_fragment(const void* row) {
    ga_fragment x;
#ifndef GA_HOST
    asm volatile("{ .reg .u64 p; .reg .u32 s; cvta.to.shared.u64 p, %4; cvt.u32.u64 s, p;"
                 "  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [s]; }"
                 : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3]) : "l"(row) : "memory");
#else
    const unsigned lane = threadIdx.x % 32u;
    for (unsigned m = 0; m < 4u; ++m) {
        const auto from = (const unsigned short*)__shfl_sync(0xffffffffu, (unsigned long long)row, m * 8u + lane / 4u);
        x.w[m] = from[lane % 4u * 2u] | (unsigned)from[lane % 4u * 2u + 1u] << 16;
    }
#endif
    return x;
}

//@ ga_read_turned
// The same, each matrix transposed.
GA_INLINE ga_fragment ga_read_turned(const void* row) {
    ga_fragment x;
#ifndef GA_HOST
    asm volatile("{ .reg .u64 p; .reg .u32 s; cvta.to.shared.u64 p, %4; cvt.u32.u64 s, p;"
                 "  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [s]; }"
                 : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3]) : "l"(row) : "memory");
#else
    const unsigned lane = threadIdx.x % 32u;
    for (unsigned m = 0; m < 4u; ++m) {
        const unsigned first = m * 8u + lane % 4u * 2u;
        const auto one = (const unsigned short*)__shfl_sync(0xffffffffu, (unsigned long long)row, first);
        const auto two = (const unsigned short*)__shfl_sync(0xffffffffu, (unsigned long long)row, first + 1u);
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

//@ ga_add_product
// Add the product of rows a, 16 x 16, and columns b, 16 x 8, to sums in float. Lane l has two of them in row l / 4
// (upper) and two in row l / 4 + 8 (lower), in columns l % 4 * 2 and the next.
template <class T> GA_INLINE void ga_add_product(float* upper, float* lower, const ga_fragment& a, unsigned b0, unsigned b1) {
    const unsigned lane = threadIdx.x % 32u;
    const auto value = [](unsigned bits) {
        T x;
        x.bits = (unsigned short)bits;
        return ga_value(x);
    };
#pragma unroll
    for (unsigned k = 0; k < 8u; ++k) {
        const unsigned from = lane / 4u * 4u + k % 4u;
        const unsigned up = __shfl_sync(0xffffffffu, a.w[k / 4u * 2u], from);
        const unsigned low = __shfl_sync(0xffffffffu, a.w[k / 4u * 2u + 1u], from);
#pragma unroll
        for (unsigned e = 0; e < 2u; ++e) {
            const unsigned by = __shfl_sync(0xffffffffu, k < 4u ? b0 : b1, (lane % 4u * 2u + e) * 4u + k % 4u);
            upper[e] = fmaf(value(up >> 16), value(by >> 16), fmaf(value(up), value(by), upper[e]));
            lower[e] = fmaf(value(low >> 16), value(by >> 16), fmaf(value(low), value(by), lower[e]));
        }
    }
}

//@ GA_TENSOR if ga_add_product
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
#define GA_TENSOR(T, name)                                                                                           \
    template <> __device__ __forceinline__ void ga_add_product<T>(                                                   \
        float* upper, float* lower, const ga_fragment& a, unsigned b0, unsigned b1) {                                \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 "                                  \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                               \
                     : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])                                \
                     : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b0), "r"(b1));                        \
    }
#endif

//@ ga_add_product_f16 if ga_add_product ga_f16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
GA_TENSOR(ga_f16, "f16")
#elif !defined(GA_HOST)
// A step of 8 at a time.
template <> __device__ __forceinline__ void ga_add_product<ga_f16>(
    float* upper, float* lower, const ga_fragment& a, unsigned b0, unsigned b1) {
#pragma unroll
    for (unsigned k = 0; k < 2u; ++k)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
                     : "r"(a.w[k * 2u]), "r"(a.w[k * 2u + 1u]), "r"(k ? b1 : b0));
}
#endif

//@ ga_add_product_bf16 if ga_add_product ga_bf16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
GA_TENSOR(ga_bf16, "bf16")
#endif
