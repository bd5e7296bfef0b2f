// k0_columns: reduce_max, max, sub, exp, reduce_sum, div
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    67108864 bytes
//   1024 columns of 4096, 64 threads a column; 64 x 1024 threads
extern "C" __global__ void __launch_bounds__(1024) k0_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part0[1024];
    const unsigned lane = threadIdx.x % 16u, deep = threadIdx.x / 16u;
    const bool inside = blockIdx.x * 16u + lane < 1024u;
    const unsigned column = inside ? blockIdx.x * 16u + lane : 0u;
    float r0 = -GA_INFF;                                                  // reduce_max
    #pragma unroll 16
    for (unsigned j = deep; j < 4096u; j += 64u) {                        // pass 1 down the columns
        const float x0 = in0[j * 1024u + column];
        r0 = ga_max(r0, x0);
    }
    r0 = ga_column_reduce<64, 16>(r0, part0, [](float p, float q) -> float { return ga_max(p, q); });
    const float v1 = ga_max(-GA_INFF, r0);
    float r2 = 0.0f;                                                      // reduce_sum
    #pragma unroll 16
    for (unsigned j = deep; j < 4096u; j += 64u) {                        // pass 2 down the columns
        const float x0 = in0[j * 1024u + column];
        const float v3 = x0 - v1;                                         // sub
        const float v4 = ga_exp(v3);
        r2 = r2 + v4;
    }
    r2 = ga_column_reduce<64, 16>(r2, part0, [](float p, float q) -> float { return p + q; });
    #pragma unroll 16
    for (unsigned j = deep; j < 4096u; j += 64u) {                        // write the columns
        const float x0 = in0[j * 1024u + column];
        const float v5 = x0 - v1;                                         // sub
        const float v6 = ga_exp(v5);
        const float v7 = v6 / r2;                                         // div
        out0[j * 1024u + column] = v7;
    }
}
