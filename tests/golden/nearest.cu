// k0_rows: sub, integer_pow, reduce_sum, argmin, reduce_min
//   in0 f32[100000,8], in1 f32[64,8] -> out0 i32[100000], out1 f32[100000]    4002048 bytes
//   100000 rows of 64, 32 threads a row; 12500 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_rows(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    int* __restrict__ out0,
    float* __restrict__ out1) {
    in0 = (const float*)__builtin_assume_aligned(in0, 16);
    in1 = (const float*)__builtin_assume_aligned(in1, 16);
    const unsigned lane = threadIdx.x % 32u;
    const unsigned row = blockIdx.x * 8u + threadIdx.x / 32u;
    ga_arg<float> r0 = ga_arg<float>{GA_INFF, ~0ull};                     // argmin
    float r1 = GA_INFF;                                                   // reduce_min
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // pass 1 over the row
        const unsigned j = u * 32u + lane;
        float f0 = 0.0f;
        #pragma unroll
        for (unsigned w1 = 0; w1 < 8u; ++w1) {
            const float t2 = in0[row * 8u + w1] - in1[j * 8u + w1];
            f0 = f0 + (t2 * t2);
        }
        r0 = ga_argmin_next(r0, ga_arg<float>{f0, j});
        r1 = ga_min(r1, f0);
    }
    r0 = ga_warp_reduce<32>(r0, [](ga_arg<float> p, ga_arg<float> q) -> ga_arg<float> { return ga_argmin(p, q); });
    const int v2 = r0.at;
    r1 = ga_warp_reduce<32>(r1, [](float p, float q) -> float { return ga_min(p, q); });
    if (lane == 0) {
        out0[row] = v2;
        out1[row] = r1;
    }
}
