// k0_map: concatenate, mul, add
//   in0 f32[300,256], in1 f32[500,256] -> out0 f32[800,256]    1638400 bytes
//   204800 elements, 4 a thread; 200 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const unsigned i0 = i / 256u;
    const ga_vec<float, 4> x0 = i0 < 300u ? ga_load<4>(in0 + i) : ga_load<4>(in1 + i - 76800u);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        const float v0 = x0.v[e] * 2.0f;                                  // mul
        y0.v[e] = v0 + 1.0f;                                              // add
    }
    ga_store(out0 + i, y0);
}
