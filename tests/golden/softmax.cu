// k0_rows: reduce_max, sub, exp, reduce_sum, div
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    33554432 bytes
//   4096 rows of 1024, 64 threads a row, held in registers; 4096 x 64 threads
extern "C" __global__ void __launch_bounds__(64) k0_rows(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part0[2];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    ga_vec<float, 4> kept0[4];
    ga_vec<float, 4> row0[4];
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // read the row
        const unsigned j = (u * 64u + lane) * 4u;
        row0[u] = ga_load<4>(in0 + row * 1024u + j);
    }
    float r0 = -GA_INFF;                                                  // reduce_max
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 1 over the row
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            r0 = ga_max(r0, row0[u].v[e]);
        }
    }
    r0 = ga_block_reduce<2>(r0, part0, [](float p, float q) -> float { return ga_max(p, q); });
    float r1 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 2 over the row
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v2 = row0[u].v[e] - r0;                           // sub
            const float v3 = ga_exp(v2);
            kept0[u].v[e] = v3;
            r1 = r1 + v3;
        }
    }
    r1 = ga_block_reduce<2>(r1, part0, [](float p, float q) -> float { return p + q; });
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // write the row
        const unsigned j = (u * 64u + lane) * 4u;
        ga_vec<float, 4> y0;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            y0.v[e] = kept0[u].v[e] / r1;                                 // div
        }
        ga_store(out0 + row * 1024u + j, y0);
    }
}
