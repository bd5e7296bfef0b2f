// k0_map: mul x4, sub, add, concatenate
//   in0 bf16[2048,16,64], in1 bf16[16,32], in2 bf16[16,32] -> out0 bf16[2048,16,64]    8390656 bytes
//   2097152 elements, 8 a thread; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    const ga_bf16* __restrict__ in2,
    ga_bf16* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 8u;
    const unsigned i1 = (i / 64u) % 16u;
    const unsigned i2 = i % 64u;
    ga_vec<ga_bf16, 8> g14;
    if (i2 < 32u) {
        const ga_vec<ga_bf16, 8> q0 = ga_load<8>(in0 + i);
        const ga_vec<ga_bf16, 8> q1 = ga_load<8>(in1 + i1 * 32u + i2);
        const ga_vec<ga_bf16, 8> q2 = ga_load<8>(in0 + i + 32u);
        const ga_vec<ga_bf16, 8> q3 = ga_load<8>(in2 + i1 * 32u + i2);
        ga_vec<ga_bf16, 8> g4;
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float t5 = ga_times<ga_bf16>(ga_value(q0.v[e]), ga_value(q1.v[e]));  // mul
            const float t6 = ga_times<ga_bf16>(ga_value(q2.v[e]), ga_value(q3.v[e]));  // mul
            g4.v[e] = ga_exact<ga_bf16>(ga_minus<ga_bf16>(t5, t6));
        }
        g14 = g4;
    } else {
        const ga_vec<ga_bf16, 8> q7 = ga_load<8>(in0 + i);
        const ga_vec<ga_bf16, 8> q8 = ga_load<8>(in1 + i1 * 32u + i2 - 32u);
        const ga_vec<ga_bf16, 8> q9 = ga_load<8>(in0 + i - 32u);
        const ga_vec<ga_bf16, 8> q10 = ga_load<8>(in2 + i1 * 32u + i2 - 32u);
        ga_vec<ga_bf16, 8> g11;
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float t12 = ga_times<ga_bf16>(ga_value(q7.v[e]), ga_value(q8.v[e]));  // mul
            const float t13 = ga_times<ga_bf16>(ga_value(q9.v[e]), ga_value(q10.v[e]));  // mul
            g11.v[e] = ga_exact<ga_bf16>(ga_plus<ga_bf16>(t12, t13));
        }
        g14 = g11;
    }
    ga_store(out0 + i, g14);
}
