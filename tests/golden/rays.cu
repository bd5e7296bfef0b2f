// k0_loop: scan
//   in0 f32[1048576,3], in1 f32[3] -> out0 f32[1048576]    16777228 bytes
//   1048576 elements; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_loop(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= 1048576u) return;
    float c0 = 0.0f;
    #pragma unroll 4
    for (unsigned t = 0; t < 64u; ++t) {                                  // scan
        const float x0 = in0[i * 3u];
        const float v0 = c0 * x0;                                         // mul
        const float x1 = in0[i * 3u + 1u];
        const float v1 = c0 * x1;                                         // mul
        const float x2 = in0[i * 3u + 2u];
        const float v2 = c0 * x2;                                         // mul
        const float x3 = in1[0u];
        const float v3 = x3 + v0;                                         // add
        const float x4 = in1[1u];
        const float v4 = x4 + v1;                                         // add
        const float x5 = in1[2u];
        const float v5 = x5 + v2;                                         // add
        const float v6 = v3 * v3;                                         // mul
        const float v7 = v4 * v4;                                         // mul
        const float v8 = v5 * v5;                                         // mul
        const float v9 = v6 + v7;                                         // add
        const float v10 = v9 + v8;                                        // add
        const float v11 = ga_sqrt(v10);
        const float v12 = c0 + v11;                                       // add
        const float v13 = v12 - 1.0f;                                     // sub
        c0 = v13;
    }
    out0[i] = c0;
}
