// k0_rows: reduce_max, sub, exp, reduce_sum, div
//   in0 f32[512,10001] -> out0 f32[512,10001]    40964096 bytes
//   512 rows of 10001, 1024 threads a row, held in shared memory; 512 x 1024 threads
extern "C" __global__ void __launch_bounds__(1024) k0_rows(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float row0[10001];
    __shared__ float part1[32];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    #pragma unroll 8
    for (unsigned j = lane; j < 10001u; j += 1024u) {                     // read the row
        row0[j] = in0[row * 10001u + j];
    }
    float r0 = -GA_INFF;                                                  // reduce_max
    #pragma unroll 8
    for (unsigned j = lane; j < 10001u; j += 1024u) {                     // pass 1 over the row
        const float x0 = row0[j];
        r0 = ga_max(r0, x0);
    }
    r0 = ga_block_reduce<32>(r0, part1, [](float p, float q) -> float { return ga_max(p, q); });
    float r1 = 0.0f;                                                      // reduce_sum
    #pragma unroll 8
    for (unsigned j = lane; j < 10001u; j += 1024u) {                     // pass 2 over the row
        const float x0 = row0[j];
        const float v2 = x0 - r0;                                         // sub
        const float v3 = ga_exp(v2);
        r1 = r1 + v3;
    }
    r1 = ga_block_reduce<32>(r1, part1, [](float p, float q) -> float { return p + q; });
    #pragma unroll 8
    for (unsigned j = lane; j < 10001u; j += 1024u) {                     // write the row
        const float x0 = row0[j];
        const float v4 = x0 - r0;                                         // sub
        const float v5 = ga_exp(v4);
        out0[row * 10001u + j] = v5 / r1;                                 // div
    }
}
