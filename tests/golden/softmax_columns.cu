// k0_columns: reduce_max, max, sub, exp, reduce_sum, div
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    50331648 bytes
//   1024 columns of 4096, 64 threads a column; 64 x 1024 threads
extern "C" __global__ void __launch_bounds__(1024) k0_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part0[1024];
    const unsigned lane = threadIdx.x % 16u, deep = threadIdx.x / 16u;
    const bool inside = blockIdx.x * 16u + lane < 1024u;
    const unsigned column = inside ? blockIdx.x * 16u + lane : 0u;
    float r0 = -GA_INFF;                                                  // reduce_max
    float r1 = 0.0f;                                                      // reduce_sum
    float base0 = 0;                                                      // what sums refer to so far
    for (unsigned k = deep; k < 4096u; k += 1024u) {                      // pass 1 down the columns
        float row0[16];
        #pragma unroll
        for (unsigned u = 0; u < 16u; ++u) {                              // read
            const unsigned j = k + u * 64u;
            row0[u] = in0[j * 1024u + column];
        }
        #pragma unroll
        for (unsigned u = 0; u < 16u; ++u) {                              // fold
            const float x0 = row0[u];
            r0 = ga_max(r0, x0);
        }
        const float v2 = ga_max(-GA_INFF, r0);
        const float base0_now = v2 - v2 == 0 ? v2 : 0;
        r1 = r1 == 0 ? r1 : r1 * ga_exp(base0 - base0_now);
        base0 = base0_now;
        #pragma unroll
        for (unsigned u = 0; u < 16u; ++u) {                              // add what follows
            const float x0 = row0[u];
            const float v3 = x0 - base0;                                  // sub
            const float v4 = ga_exp(v3);
            r1 = r1 + v4;
        }
    }
    r0 = ga_column_reduce<64, 16>(r0, part0, [](float p, float q) -> float { return ga_max(p, q); });
    const float v5 = ga_max(-GA_INFF, r0);
    r1 = r1 == 0 ? r1 : r1 * ga_exp(base0 - v5);
    r1 = ga_column_reduce<64, 16>(r1, part0, [](float p, float q) -> float { return p + q; });
    r1 = r1 + (v5 - v5);
    #pragma unroll 16
    for (unsigned j = deep; j < 4096u; j += 64u) {                        // write the columns
        const float x0 = in0[j * 1024u + column];
        const float v6 = x0 - v5;                                         // sub
        const float v7 = ga_exp(v6);
        const float v8 = v7 / r1;                                         // div
        out0[j * 1024u + column] = v8;
    }
}
