// k0_map: lt, add x2, select_n, gather, mul
//   in0 bf16[32000,512], in1 i32[4096], in2 bf16[512], in3 bf16[512] -> out0 bf16[4096,512]    8407040 bytes
//   2097152 elements, 8 a thread; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const ga_bf16* __restrict__ in0,
    const int* __restrict__ in1,
    const ga_bf16* __restrict__ in2,
    const ga_bf16* __restrict__ in3,
    ga_bf16* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 8u;
    const unsigned i0 = i / 512u;
    const unsigned i1 = i % 512u;
    const int t0 = in1[i0];
    const unsigned at1 = ga_clip((t0 < 0) ? ga_add(t0, 32000) : t0, 31999u);
    const ga_vec<ga_bf16, 8> x0 = ga_load<8>(in0 + at1 * 512u + i1);
    const ga_vec<ga_bf16, 8> x3 = ga_load<8>(in2 + i1);
    const ga_vec<ga_bf16, 8> x4 = ga_load<8>(in3 + i1);
    ga_vec<ga_bf16, 8> y0;
    #pragma unroll
    for (unsigned e = 0; e < 8u; ++e) {
        const float v0 = ga_times<ga_bf16>(ga_value(x0.v[e]), ga_value(x3.v[e]));  // mul
        const float v1 = ga_plus<ga_bf16>(v0, ga_value(x4.v[e]));         // add
        y0.v[e] = ga_exact<ga_bf16>(v1);
    }
    ga_store(out0 + i, y0);
}
