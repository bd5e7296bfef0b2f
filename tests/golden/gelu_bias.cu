// k0_map: add x3, integer_pow, mul x4, tanh
//   in0 bf16[8192,4096], in1 bf16[4096] -> out0 bf16[8192,4096]    134225920 bytes
//   33554432 elements, 8 a thread; 16384 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    ga_bf16* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 8u;
    const unsigned i1 = i % 4096u;
    const ga_vec<ga_bf16, 8> x0 = ga_load<8>(in0 + i);
    const ga_vec<ga_bf16, 8> x1 = ga_load<8>(in1 + i1);
    ga_vec<ga_bf16, 8> y0;
    #pragma unroll
    for (unsigned e = 0; e < 8u; ++e) {
        const float v0 = ga_plus<ga_bf16>(ga_value(x0.v[e]), ga_value(x1.v[e]));  // add
        const float v1 = ga_round<ga_bf16>(v0 * v0 * v0);                 // integer_pow
        const float v2 = ga_times<ga_bf16>(0.044677734f, v1);             // mul
        const float v3 = ga_plus<ga_bf16>(v0, v2);                        // add
        const float v4 = ga_times<ga_bf16>(0.796875f, v3);                // mul
        const float v5 = ga_round<ga_bf16>(ga_tanh(v4));
        const float v6 = ga_plus<ga_bf16>(1.0f, v5);                      // add
        const float v7 = ga_times<ga_bf16>(0.5f, v6);                     // mul
        const float v8 = ga_times<ga_bf16>(v0, v7);                       // mul
        y0.v[e] = ga_exact<ga_bf16>(v8);
    }
    ga_store(out0 + i, y0);
}
