// k0_rows: reduce_sum x2, div x2, sub, square
//   in0 f32[4096,1024] -> out0 f32[4096]    16793600 bytes
//   4096 rows of 1024, 64 threads a row, held in registers; 4096 x 64 threads
extern "C" __global__ void __launch_bounds__(64) k0_rows(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part0[2];
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    ga_vec<float, 4> row0[4];
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // read the row
        const unsigned j = (u * 64u + lane) * 4u;
        row0[u] = ga_load<4>(in0 + row * 1024u + j);
    }
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 1 over the row
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            r0 = r0 + row0[u].v[e];
        }
    }
    r0 = ga_block_reduce<2>(r0, part0, merge);
    const float v1 = r0 / 1024.0f;                                        // div
    float r2 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 2 over the row
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v3 = row0[u].v[e] - v1;                           // sub
            const float v4 = v3 * v3;                                     // square
            r2 = r2 + v4;
        }
    }
    r2 = ga_block_reduce<2>(r2, part0, merge);
    const float v5 = r2 / 1024.0f;                                        // div
    if (lane == 0) {
        out0[row] = v5;
    }
}
