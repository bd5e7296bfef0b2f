// k0_map: mul, add
//   in0 f32[1048576], in1 f32[1048576] -> out0 f32[1048576]    12582912 bytes
//   1048576 elements, 4 a thread; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const ga_vec<float, 4> x0 = ga_load<4>(in0 + i);
    const ga_vec<float, 4> x1 = ga_load<4>(in1 + i);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        const float v0 = 2.0f * x0.v[e];                                  // mul
        y0.v[e] = v0 + x1.v[e];                                           // add
    }
    ga_store(out0 + i, y0);
}
