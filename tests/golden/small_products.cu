// k0_map: mul x3, add x2, max
//   in0 f32[10000,3,3], in1 f32[10000,3,3] -> out0 f32[10000,3,3]    1080000 bytes
//   90000 elements; 352 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= 90000u) return;
    const unsigned i0 = i / 9u;
    const unsigned i1 = (i / 3u) % 3u;
    const unsigned i2 = i % 3u;
    const float x0 = in0[i0 * 9u + i1 * 3u];
    const float x1 = in1[i0 * 9u + i2];
    const float v0 = x0 * x1;                                             // mul
    const float x2 = in0[i0 * 9u + i1 * 3u + 1u];
    const float x3 = in1[i0 * 9u + i2 + 3u];
    const float v1 = x2 * x3;                                             // mul
    const float v2 = v0 + v1;                                             // add
    const float x4 = in0[i0 * 9u + i1 * 3u + 2u];
    const float x5 = in1[i0 * 9u + i2 + 6u];
    const float v3 = x4 * x5;                                             // mul
    const float v4 = v2 + v3;                                             // add
    out0[i] = ga_max(v4, 0.0f);
}
