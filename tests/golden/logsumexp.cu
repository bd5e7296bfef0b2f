// k0_rows: reduce_max, is_finite, select_n, sub, exp, reduce_sum, abs, log, add
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
    const bool v1 = ga_is_finite(r0);
    const float v2 = v1 ? r0 : 0.0f;                                      // select_n
    float r3 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 2 over the row
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v4 = row0[u].v[e] - v2;                           // sub
            const float v5 = ga_exp(v4);
            r3 = r3 + v5;
        }
    }
    r3 = ga_block_reduce<2>(r3, part0, [](float p, float q) -> float { return p + q; });
    const float v6 = ga_abs(r3);
    const float v7 = ga_log(v6);
    const float v8 = v7 + v2;                                             // add
    if (lane == 0) {
        out0[row] = v8;
    }
}
