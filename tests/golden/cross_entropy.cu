// k0_rows: iota, eq, reduce_max, sub x2, exp, reduce_sum x2, log, select_n, neg
//   in0 i32[512], in1 f32[512,32000] -> out0 f32[512]    65540096 bytes
//   512 rows of 32000, 1024 threads a row, held in registers; 512 x 1024 threads
extern "C" __global__ void __launch_bounds__(1024) k0_rows(
    const int* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    __shared__ float part0[32];
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
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
    float r1 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 8u; ++u) {                                   // pass 2 over the row
        const unsigned j = (u * 1024u + lane) * 4u;
        if (j >= 32000u) continue;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v2 = row0[u].v[e] - r0;                           // sub
            const float v3 = ga_exp(v2);
            r1 = r1 + v3;
        }
    }
    r1 = ga_block_reduce<32>(r1, part0, merge);
    const float v4 = ga_log(r1);
    float r5 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 8u; ++u) {                                   // pass 3 over the row
        const unsigned j = (u * 1024u + lane) * 4u;
        if (j >= 32000u) continue;
        const int x1 = in0[row];
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v6 = row0[u].v[e] - r0;                           // sub
            const float v7 = v6 - v4;                                     // sub
            const int x2 = (int)(j + e);
            const bool v8 = x2 == x1;                                     // eq
            const float v9 = v8 ? v7 : 0.0f;                              // select_n
            r5 = r5 + v9;
        }
    }
    r5 = ga_block_reduce<32>(r5, part0, merge);
    const float v10 = -r5;                                                // neg
    if (lane == 0) {
        out0[row] = v10;
    }
}
