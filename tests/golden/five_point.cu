// k0_map: add x4, mul
//   in0 f32[1026,1026] -> out0 f32[1024,1024]    8405000 bytes
//   1048576 elements; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    const unsigned i0 = i / 1024u;
    const unsigned i1 = i % 1024u;
    const float x0 = in0[i0 * 1026u + i1 + 1u];
    const float x1 = in0[i0 * 1026u + i1 + 2053u];
    const float v0 = x0 + x1;                                             // add
    const float x2 = in0[i0 * 1026u + i1 + 1026u];
    const float v1 = v0 + x2;                                             // add
    const float x3 = in0[i0 * 1026u + i1 + 1028u];
    const float v2 = v1 + x3;                                             // add
    const float x4 = in0[i0 * 1026u + i1 + 1027u];
    const float v3 = x4 + v2;                                             // add
    out0[i] = 0.2f * v3;                                                  // mul
}
