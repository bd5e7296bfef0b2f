// k0_scan: sub, cumprod, mul
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    33554432 bytes
//   scan of 4096 rows of 1024, 256 threads a row; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_scan(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part[8];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    const auto merge = [](float p, float q) -> float { return p * q; };
    const unsigned j = lane * 4u;
    float run[4], sum = 1.0f;
    if (j < 1024u) {
        const ga_vec<float, 4> q0 = ga_load<4>(in0 + row * 1024u + j);
        ga_vec<float, 4> g1;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            g1.v[e] = 1.0f - q0.v[e];
        }
        const ga_vec<float, 4> x = g1;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            run[e] = sum = sum * x.v[e];
        }
    }
    float whole;
    float ahead = ga_block_scan<8>(sum, part, 1.0f, whole, merge);        // of this thread's
    if (j < 1024u) {
        const ga_vec<float, 4> x0 = ga_load<4>(in0 + row * 1024u + j);
        ga_vec<float, 4> y0;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v0 = ahead * run[e];
            y0.v[e] = x0.v[e] * v0;                                       // mul
        }
        ga_store(out0 + row * 1024u + j, y0);
    }
}
