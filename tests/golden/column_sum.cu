// k0_columns: reduce_sum
//   in0 f32[4096,1024] -> out0 f32[1024]    16781312 bytes
//   1024 columns of 4096, 8 threads a column; 32 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part0[256];
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const bool inside = blockIdx.x * 32u + lane < 1024u;
    const unsigned column = inside ? blockIdx.x * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    for (unsigned j = deep; j < 4096u; j += 8u) {                         // pass 1 down the columns
        const float x0 = in0[j * 1024u + column];
        r0 = r0 + x0;
    }
    r0 = ga_column_reduce<8>(r0, part0, [](float p, float q) -> float { return p + q; });
    if (deep == 0 && inside) {
        out0[column] = r0;
    }
}
