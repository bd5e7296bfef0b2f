// k0_map: conv_general_dilated, max
//   in0 f32[8,56,56,64], in1 f32[3,3,1,64] -> out0 f32[8,56,56,64]    12847360 bytes
//   1605632 elements, 4 a thread; 1568 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const unsigned i0 = i / 200704u;
    const unsigned i1 = (i / 3584u) % 56u;
    const unsigned i2 = (i / 64u) % 56u;
    const unsigned i3 = i % 64u;
    float f0[4];
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) f0[e] = 0.0f;
    #pragma unroll
    for (unsigned w1 = 0; w1 < 3u; ++w1) {
        #pragma unroll
        for (unsigned w2 = 0; w2 < 3u; ++w2) {
            if (i1 + w1 - 1u >= 56u || i2 + w2 - 1u >= 56u) continue;
            const ga_vec<float, 4> q3 = ga_load<4>(in0 + i0 * 200704u + i1 * 3584u + w1 * 3584u + i2 * 64u + w2 * 64u + i3 - 3648u);
            const ga_vec<float, 4> q4 = ga_load<4>(in1 + w1 * 192u + w2 * 64u + i3);
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                f0[e] = f0[e] + q3.v[e] * q4.v[e];
            }
        }
    }
    ga_vec<float, 4> g0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) g0.v[e] = f0[e];
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        y0.v[e] = ga_max(g0.v[e], 0.0f);
    }
    ga_store(out0 + i, y0);
}
