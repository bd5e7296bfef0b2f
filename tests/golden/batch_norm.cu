// k0_columns: reduce_sum, div, div
//   in0 f32[32,56,56,64] -> out0 f32[64], out1 f32[1,1,1,64]    25960976 bytes
//   64 columns of 100352, 8 threads a column, 528 blocks a column; 1056 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    float* __restrict__ out1,
    unsigned char* work) {
    __shared__ float part0[256];
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const unsigned block = blockIdx.x % 2u;
    const unsigned cut = blockIdx.x / 2u;
    const bool inside = block * 32u + lane < 64u;
    const unsigned column = inside ? block * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll 8
    for (unsigned j = cut * 8u + deep; j < 100352u; j += 4224u) {         // pass 1 down the columns
        const float x0 = in0[j * 64u + column];
        r0 = r0 + x0;
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, [](float p, float q) -> float { return p + q; });
    if (deep == 0) {
        ga_put(work, cut * 64u + block * 32u + lane, r0);
        __threadfence();
    }
    __shared__ bool last;
    __syncthreads();
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + 540672u) + block, 527u) == 527u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    #pragma unroll 8
    for (unsigned b = deep; b < 528u; b += 8u) {
        r0 = r0 + ga_get<float>(work, b * 64u + block * 32u + lane);
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, [](float p, float q) -> float { return p + q; });
    const float v1 = r0 / 100352.0f;                                      // div
    const float v2 = r0 / 100352.0f;                                      // div
    if (deep == 0 && inside) {
        out0[column] = v1;
        out1[column] = v2;
    }
}

// k1_columns: sub, square, reduce_sum, div, add, rsqrt
//   in0 f32[32,56,56,64], in1 f32[1,1,1,64] -> out0 f32[64]    25960976 bytes
//   64 columns of 100352, 8 threads a column, 528 blocks a column; 1056 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k1_columns(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0,
    unsigned char* work) {
    __shared__ float part0[256];
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const unsigned block = blockIdx.x % 2u;
    const unsigned cut = blockIdx.x / 2u;
    const bool inside = block * 32u + lane < 64u;
    const unsigned column = inside ? block * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll 8
    for (unsigned j = cut * 8u + deep; j < 100352u; j += 4224u) {         // pass 1 down the columns
        const float x0 = in0[j * 64u + column];
        const float x1 = in1[column];
        const float v1 = x0 - x1;                                         // sub
        const float v2 = v1 * v1;                                         // square
        r0 = r0 + v2;
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, [](float p, float q) -> float { return p + q; });
    if (deep == 0) {
        ga_put(work, cut * 64u + block * 32u + lane, r0);
        __threadfence();
    }
    __shared__ bool last;
    __syncthreads();
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + 540672u) + block, 527u) == 527u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    #pragma unroll 8
    for (unsigned b = deep; b < 528u; b += 8u) {
        r0 = r0 + ga_get<float>(work, b * 64u + block * 32u + lane);
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, [](float p, float q) -> float { return p + q; });
    const float v3 = r0 / 100352.0f;                                      // div
    const float v4 = v3 + 1.0e-05f;                                       // add
    const float v5 = ga_rsqrt(v4);
    if (deep == 0 && inside) {
        out0[column] = v5;
    }
}

// k2_map: sub, mul, mul, add
//   in0 f32[32,56,56,64], in1 f32[64], in2 f32[64], in3 f32[64], in4 f32[64] -> out0 f32[32,56,56,64]    51381248 bytes
//   6422528 elements, 4 a thread; 6272 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k2_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const unsigned i1 = i % 64u;
    const ga_vec<float, 4> x0 = ga_load<4>(in0 + i);
    const ga_vec<float, 4> x1 = ga_load<4>(in1 + i1);
    const ga_vec<float, 4> x2 = ga_load<4>(in2 + i1);
    const ga_vec<float, 4> x3 = ga_load<4>(in3 + i1);
    const ga_vec<float, 4> x4 = ga_load<4>(in4 + i1);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        const float v0 = x0.v[e] - x1.v[e];                               // sub
        const float v1 = v0 * x2.v[e];                                    // mul
        const float v2 = v1 * x3.v[e];                                    // mul
        const float v3 = v2 + x4.v[e];                                    // add
        y0.v[e] = v3;
    }
    ga_store(out0 + i, y0);
}
