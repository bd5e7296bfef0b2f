// k0_map: reduce_window_max
//   in0 f32[512,512] -> out0 f32[256,256]    1310720 bytes
//   65536 elements; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    in0 = (const float*)__builtin_assume_aligned(in0, 16);
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    const unsigned i0 = i / 256u;
    const unsigned i1 = i % 256u;
    float f0 = -GA_INFF;
    #pragma unroll
    for (unsigned w1 = 0; w1 < 3u; ++w1) {
        #pragma unroll
        for (unsigned w2 = 0; w2 < 3u; ++w2) {
            if (i0 * 2u + w1 >= 512u || i1 * 2u + w2 >= 512u) continue;
            f0 = ga_max(f0, in0[i0 * 1024u + w1 * 512u + i1 * 2u + w2]);
        }
    }
    out0[i] = f0;
}
