// k0_columns: reduce_max, sub, exp, reduce_sum
//   in0 f32[4096,1024] -> out0 f32[1024], out1 f32[1024]    17572096 bytes
//   1024 columns of 4096, 8 threads a column, 32 blocks a column; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    float* __restrict__ out1,
    unsigned char* work) {
    __shared__ float part0[256];
    const auto merge0 = [](float p, float q) -> float { return ga_max(p, q); };
    const auto merge1 = [](float p, float q) -> float { return p + q; };
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const unsigned block = blockIdx.x % 32u;
    const unsigned cut = blockIdx.x / 32u;
    const bool inside = block * 32u + lane < 1024u;
    const unsigned column = inside ? block * 32u + lane : 0u;
    float r0 = -GA_INFF;                                                  // reduce_max
    float r1 = 0.0f;                                                      // reduce_sum
    float base0 = 0;                                                      // what sums refer to so far
    for (unsigned k = cut * 8u + deep; k < 4096u; k += 2048u) {           // pass 1 down the columns
        float turn0[8];
        const float* const from0 = in0 + (k * 1024u + column);
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {                               // read
            turn0[u] = from0[u * 262144u];
        }
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {                               // fold
            const float x0 = turn0[u];
            r0 = ga_max(r0, x0);
        }
        const float base0_now = r0 - r0 == 0 ? r0 : 0;
        r1 = r1 == 0 ? r1 : r1 * ga_exp(base0 - base0_now);
        base0 = base0_now;
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {                               // add what follows
            const float x0 = turn0[u];
            const float v2 = x0 - base0;                                  // sub
            const float v3 = ga_exp(v2);
            r1 = r1 + v3;
        }
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge0);
    const float base0_now = r0 - r0 == 0 ? r0 : 0;
    r1 = r1 == 0 ? r1 : r1 * ga_exp(base0 - base0_now);
    r1 = ga_column_reduce<8, 32>(r1, part0, merge1);
    base0 = base0_now;
    const unsigned cell1 = 524288u, cell2 = 1048576u, tickets = 1572864u;  // in the workspace
    if (deep == 0) {
        ga_put(work, cut * 1024u + block * 32u + lane, r0);
        ga_put(work + cell1, cut * 1024u + block * 32u + lane, r1);
        ga_put(work + cell2, cut * 1024u + block * 32u + lane, base0);
        __threadfence();
    }
    __shared__ bool last;
    __syncthreads();
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + tickets) + block, 31u) == 31u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = -GA_INFF;
    for (unsigned b = deep; b < 32u; b += 8u) {
        r0 = ga_max(r0, ga_get<float>(work, b * 1024u + block * 32u + lane));
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge0);
    r1 = 0.0f;
    for (unsigned b = deep; b < 32u; b += 8u) {
        const float theirs = ga_get<float>(work + cell1, b * 1024u + block * 32u + lane);
        const float was = ga_get<float>(work + cell2, b * 1024u + block * 32u + lane);
        r1 = r1 + (theirs == 0 ? theirs : theirs * ga_exp(was - r0));
    }
    r1 = ga_column_reduce<8, 32>(r1, part0, merge1);
    r1 = r1 + (r0 - r0);
    if (deep == 0 && inside) {
        out0[column] = r0;
        out1[column] = r1;
    }
}

// k1_map: sub, exp, div
//   in0 f32[4096,1024], in1 f32[1024], in2 f32[1024] -> out0 f32[4096,1024]    33562624 bytes
//   4194304 elements, 4 a thread; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k1_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const unsigned i1 = i % 1024u;
    const ga_vec<float, 4> x0 = ga_load<4>(in0 + i);
    const ga_vec<float, 4> x1 = ga_load<4>(in1 + i1);
    const ga_vec<float, 4> x2 = ga_load<4>(in2 + i1);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        const float v0 = x0.v[e] - x1.v[e];                               // sub
        const float v1 = ga_exp(v0);
        y0.v[e] = v1 / x2.v[e];                                           // div
    }
    ga_store(out0 + i, y0);
}
