// k0_rows: iota, eq, reduce_max, max, stop_gradient, sub, exp, reduce_sum, log, sub, select_n, reduce_sum, neg
//   in0 i32[512], in1 f32[512,32000] -> out0 f32[512]    65540096 bytes
//   512 rows of 32000, 1024 threads a row, held in registers; 512 x 1024 threads
extern "C" __global__ void __launch_bounds__(1024) k0_rows(
    const int* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    __shared__ float part0[32];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    ga_vec<float, 4> kept0[8];
    ga_vec<float, 4> row0[8];
    #pragma unroll
    for (unsigned u = 0; u < 8u; ++u) {                                   // read the row
        const unsigned j = (u * 1024u + lane) * 4u;
        if (j >= 32000u) continue;
        row0[u] = ga_load<4>(in1 + row * 32000u + j);
    }
    float r0 = -GA_INFF;                                                  // reduce_max
    #pragma unroll
    for (unsigned u = 0; u < 8u; ++u) {                                   // pass 1 over the row
        const unsigned j = (u * 1024u + lane) * 4u;
        if (j >= 32000u) continue;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            r0 = ga_max(r0, row0[u].v[e]);
        }
    }
    r0 = ga_block_reduce<32>(r0, part0, [](float p, float q) -> float { return ga_max(p, q); });
    const float v1 = ga_max(-GA_INFF, r0);
    const float v2 = v1;                                                  // stop_gradient
    float r3 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 8u; ++u) {                                   // pass 2 over the row
        const unsigned j = (u * 1024u + lane) * 4u;
        if (j >= 32000u) continue;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v4 = row0[u].v[e] - v2;                           // sub
            kept0[u].v[e] = v4;
            const float v5 = ga_exp(v4);
            r3 = r3 + v5;
        }
    }
    r3 = ga_block_reduce<32>(r3, part0, [](float p, float q) -> float { return p + q; });
    const float v6 = ga_log(r3);
    float r7 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 8u; ++u) {                                   // pass 3 over the row
        const unsigned j = (u * 1024u + lane) * 4u;
        if (j >= 32000u) continue;
        const int x0 = in0[row];
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v8 = kept0[u].v[e] - v6;                          // sub
            const int x1 = (int)(j + e);
            const bool v9 = x1 == x0;                                     // eq
            const float v10 = v9 ? v8 : 0.0f;                             // select_n
            r7 = r7 + v10;
        }
    }
    r7 = ga_block_reduce<32>(r7, part0, [](float p, float q) -> float { return p + q; });
    const float v11 = -r7;                                                // neg
    if (lane == 0) {
        out0[row] = v11;
    }
}
