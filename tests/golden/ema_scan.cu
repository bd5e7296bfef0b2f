// k0_loop: scan
//   in0 bf16[512,8192] -> out0 bf16[512,8192]    16777216 bytes
//   8192 elements; 256 x 32 threads
extern "C" __global__ void __launch_bounds__(32) k0_loop(
    const ga_bf16* __restrict__ in0,
    ga_bf16* __restrict__ out0) {
    const unsigned i = blockIdx.x * 32u + threadIdx.x;
    if (i >= 8192u) return;
    const float x0 = ga_value(in0[i]);
    float c0 = x0;
    #pragma unroll 4
    for (unsigned t = 0; t < 512u; ++t) {                                 // scan
        const float v0 = ga_times<ga_bf16>(0.8984375f, c0);               // mul
        const float x1 = ga_value(in0[t * 8192u + i]);
        const float v1 = ga_times<ga_bf16>(0.100097656f, x1);             // mul
        const float v2 = ga_plus<ga_bf16>(v0, v1);                        // add
        out0[t * 8192u + i] = ga_exact<ga_bf16>(v2);
        c0 = v2;
    }
}
