// k0_map: pad, add x3, mul, sub
//   in0 f32[1024,1024] -> out0 f32[1024,1024]    8388608 bytes
//   1048576 elements; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    const unsigned i0 = i / 1024u;
    const unsigned i1 = i % 1024u;
    const float x0 = i0 - 1u < 1024u ? in0[i - 1024u] : 0.0f;
    const float x1 = i0 + 1u < 1024u ? in0[i + 1024u] : 0.0f;
    const float v0 = x0 + x1;                                             // add
    const float x2 = i1 - 1u < 1024u ? in0[i - 1u] : 0.0f;
    const float v1 = v0 + x2;                                             // add
    const float x3 = i1 + 1u < 1024u ? in0[i + 1u] : 0.0f;
    const float v2 = v1 + x3;                                             // add
    const float v3 = 0.25f * v2;                                          // mul
    const float x4 = in0[i];
    out0[i] = v3 - x4;                                                    // sub
}
