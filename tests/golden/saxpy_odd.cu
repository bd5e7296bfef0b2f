// k0_map: mul, add
//   in0 f32[1001], in1 f32[1001] -> out0 f32[1001]    12012 bytes
//   1001 elements; 4 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= 1001u) return;
    const float x0 = in0[i];
    const float v0 = 2.0f * x0;                                           // mul
    const float x1 = in1[i];
    out0[i] = v0 + x1;                                                    // add
}
