// k0_rows: reduce_max, max, is_finite, select_n, sub, exp, reduce_sum, abs, log, add
//   in0 f32[4096,1024] -> out0 f32[4096]    16793600 bytes
//   4096 rows of 1024, 64 threads a row, held in registers; 4096 x 64 threads
extern "C" __global__ void __launch_bounds__(64) k0_rows(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part0[2];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
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
    const float v1 = ga_max(-GA_INFF, r0);
    const bool v2 = ga_is_finite(v1);
    const float v3 = v2 ? v1 : 0.0f;                                      // select_n
    float r4 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 2 over the row
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v5 = row0[u].v[e] - v3;                           // sub
            const float v6 = ga_exp(v5);
            r4 = r4 + v6;
        }
    }
    r4 = ga_block_reduce<2>(r4, part0, [](float p, float q) -> float { return p + q; });
    const float v7 = ga_abs(r4);
    const float v8 = ga_log(v7);
    const float v9 = v8 + v3;                                             // add
    if (lane == 0) {
        out0[row] = v9;
    }
}
