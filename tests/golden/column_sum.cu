// k0_columns: reduce_sum
//   in0 f32[4096,1024] -> out0 f32[1024]    17043712 bytes
//   1024 columns of 4096, 8 threads a column, 32 blocks a column; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    unsigned char* work) {
    __shared__ float part0[256];
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const unsigned block = blockIdx.x % 32u;
    const unsigned cut = blockIdx.x / 32u;
    const bool inside = block * 32u + lane < 1024u;
    const unsigned column = inside ? block * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll 8
    for (unsigned j = cut * 8u + deep; j < 4096u; j += 256u) {            // pass 1 down the columns
        const float x0 = in0[j * 1024u + column];
        r0 = r0 + x0;
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    const unsigned tickets = 524288u;                                     // in the workspace
    if (deep == 0) {
        ga_put(work, cut * 1024u + block * 32u + lane, r0);
        __threadfence();
    }
    __shared__ bool last;
    __syncthreads();
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + tickets) + block, 31u) == 31u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    for (unsigned b = deep; b < 32u; b += 8u) {
        r0 = r0 + ga_get<float>(work, b * 1024u + block * 32u + lane);
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    if (deep == 0 && inside) {
        out0[column] = r0;
    }
}
