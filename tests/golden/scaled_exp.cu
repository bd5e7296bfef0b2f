// k0_map: exp, mul
//   in0 f32[67108864] -> out0 f32[67108864]    536870912 bytes
//   67108864 elements, 2 x 4 a thread; 32768 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    ga_vec<float, 4> ahead0[2];
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // read
        const unsigned i = ((blockIdx.x * 2u + u) * 256u + threadIdx.x) * 4u;
        ahead0[u] = ga_load<4>(in0 + i);
    }
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // compute
        const unsigned i = ((blockIdx.x * 2u + u) * 256u + threadIdx.x) * 4u;
        ga_vec<float, 4> y0;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v0 = ga_exp(ahead0[u].v[e]);
            y0.v[e] = v0 * 2.0f;                                          // mul
        }
        ga_store(out0 + i, y0);
    }
}
