// k0_map: conv_general_dilated, max
//   in0 f32[8,56,56,64], in1 f32[3,3,1,64] -> out0 f32[8,56,56,64]    12847360 bytes
//   1605632 elements; 6272 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    const unsigned i0 = i / 200704u;
    const unsigned i1 = (i / 3584u) % 56u;
    const unsigned i2 = (i / 64u) % 56u;
    const unsigned i3 = i % 64u;
    float f0 = 0.0f;
    #pragma unroll
    for (unsigned w1 = 0; w1 < 3u; ++w1) {
        #pragma unroll
        for (unsigned w2 = 0; w2 < 3u; ++w2) {
            if (i1 + w1 - 1u >= 56u || i2 + w2 - 1u >= 56u) continue;
            const float t3 = in0[i0 * 200704u + i1 * 3584u + w1 * 3584u + i2 * 64u + w2 * 64u + i3 - 3648u];
            f0 = f0 + t3 * in1[w1 * 192u + w2 * 64u + i3];
        }
    }
    out0[i] = ga_max(f0, 0.0f);
}
