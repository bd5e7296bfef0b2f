// k0_rows: argmin
//   in0 f16[1000,77] -> out0 i32[1000]    158000 bytes
//   1000 rows of 77, 32 threads a row; 125 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_rows(
    const ga_f16* __restrict__ in0,
    int* __restrict__ out0) {
    const unsigned lane = threadIdx.x % 32u;
    const unsigned row = blockIdx.x * 8u + threadIdx.x / 32u;
    ga_arg<float> r0 = ga_arg<float>{GA_INFF, ~0ull};                     // argmin
    #pragma unroll
    for (unsigned u = 0; u < 3u; ++u) {                                   // pass 1 over the row
        const unsigned j = u * 32u + lane;
        if (j >= 77u) continue;
        const float x0 = ga_value(in0[row * 77u + j]);
        r0 = ga_argmin_next(r0, ga_arg<float>{x0, j});
    }
    r0 = ga_warp_reduce<32>(r0, [](ga_arg<float> p, ga_arg<float> q) -> ga_arg<float> { return ga_argmin(p, q); });
    const int v1 = r0.at;
    if (lane == 0) {
        out0[row] = v1;
    }
}
