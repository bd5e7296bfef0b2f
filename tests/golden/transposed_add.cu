// k0_map: add, mul
//   in0 f32[512,512], in1 f32[512,512] -> out0 f32[512,512]    3145728 bytes
//   262144 elements, 4 a thread; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    if (i >= 262144u) return;
    const unsigned i0 = i / 512u;
    const unsigned i1 = i % 512u;
    const ga_vec<float, 4> x0 = ga_load<4>(in1 + i);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        const float x1 = in0[(i1 + e) * 512u + i0];
        const float v0 = x1 + x0.v[e];                                    // add
        const float v1 = v0 * 3.0f;                                       // mul
        y0.v[e] = v1;
    }
    ga_store(out0 + i, y0);
}
