// k0_columns: reduce_sum x2, div x3, sub, square, add, rsqrt
//   in0 f32[32,56,56,64] -> out0 f32[64], out1 f32[64]    26771984 bytes
//   64 columns of 100352, 8 threads a column, 528 blocks a column; 1056 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    float* __restrict__ out1,
    unsigned char* work) {
    __shared__ float part0[256];
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const unsigned block = blockIdx.x % 2u;
    const unsigned cut = blockIdx.x / 2u;
    const bool inside = block * 32u + lane < 64u;
    const unsigned column = inside ? block * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    float r1 = 0.0f;                                                      // reduce_sum
    float base0 = 0;                                                      // what sums refer to so far
    float many0 = 0;                                                      // in so many elements
    for (unsigned k = cut * 8u + deep; k < 100352u; k += 33792u) {        // pass 1 down the columns
        float turn0[8];
        const float* const from0 = in0 + (k * 64u + column);
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {                               // read
            const unsigned j = k + u * 4224u;
            if (j >= 100352u) continue;
            turn0[u] = from0[u * 270336u];
        }
        const float many0_before = many0;
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {                               // fold
            const unsigned j = k + u * 4224u;
            if (j >= 100352u) continue;
            const float x0 = turn0[u];
            r0 = r0 + x0;
            many0 = many0 + 1;
        }
        const float base0_now = r0 / many0;
        r1 = r1 + many0_before * (base0 - base0_now) * (base0 - base0_now);
        base0 = base0_now;
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {                               // add what follows
            const unsigned j = k + u * 4224u;
            if (j >= 100352u) continue;
            const float x0 = turn0[u];
            const float v2 = x0 - base0;                                  // sub
            const float v3 = v2 * v2;                                     // square
            r1 = r1 + v3;
        }
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    const float many0_own = many0;
    many0 = ga_column_reduce<8, 32>(many0, part0, merge);
    const float base0_now = r0 / many0;
    r1 = r1 + many0_own * (base0 - base0_now) * (base0 - base0_now);
    r1 = ga_column_reduce<8, 32>(r1, part0, merge);
    base0 = base0_now;
    const unsigned cell1 = 540672u, cell2 = 1081344u, cell3 = 1622016u, tickets = 2162688u;  // in the workspace
    if (deep == 0) {
        ga_put(work, cut * 64u + block * 32u + lane, r0);
        ga_put(work + cell1, cut * 64u + block * 32u + lane, r1);
        ga_put(work + cell2, cut * 64u + block * 32u + lane, base0);
        ga_put(work + cell3, cut * 64u + block * 32u + lane, many0);
        __threadfence();
    }
    __shared__ bool last;
    __syncthreads();
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + tickets) + block, 527u) == 527u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    #pragma unroll 8
    for (unsigned b = deep; b < 528u; b += 8u) {
        r0 = r0 + ga_get<float>(work, b * 64u + block * 32u + lane);
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    const float v4 = r0 / 100352.0f;                                      // div
    const float v5 = r0 / 100352.0f;                                      // div
    r1 = 0.0f;
    #pragma unroll 8
    for (unsigned b = deep; b < 528u; b += 8u) {
        const float theirs = ga_get<float>(work + cell1, b * 64u + block * 32u + lane);
        const float was = ga_get<float>(work + cell2, b * 64u + block * 32u + lane);
        const float many = ga_get<float>(work + cell3, b * 64u + block * 32u + lane);
        r1 = r1 + (theirs + many * (was - v5) * (was - v5));
    }
    r1 = ga_column_reduce<8, 32>(r1, part0, merge);
    const float v6 = r1 / 100352.0f;                                      // div
    const float v7 = v6 + 1.0e-05f;                                       // add
    const float v8 = ga_rsqrt(v7);
    if (deep == 0 && inside) {
        out0[column] = v4;
        out1[column] = v8;
    }
}

// k1_map: sub, mul x2, add
//   in0 f32[32,56,56,64], in1 f32[64], in2 f32[64], in3 f32[64], in4 f32[64] -> out0 f32[32,56,56,64]    51381248 bytes
//   6422528 elements, 4 a thread; 6272 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k1_map(
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
        y0.v[e] = v2 + x4.v[e];                                           // add
    }
    ga_store(out0 + i, y0);
}
