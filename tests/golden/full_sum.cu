// k0_rows: reduce_sum
//   in0 f32[16777216] -> out0 f32[]    67110988 bytes
//   16777216 elements, 264 partial results each, merged in order; 264 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 2) k0_rows(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    unsigned char* work) {
    __shared__ float part0[8];
    const auto merge = [](float p, float q) -> float { return p + q; };
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll 8
    for (unsigned j = (blockIdx.x * 256u + threadIdx.x) * 4u; j < 16777216u; j += 270336u) {
        const ga_vec<float, 4> x0 = ga_load<4>(in0 + j);
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            r0 = r0 + x0.v[e];
        }
    }
    r0 = ga_block_reduce<8>(r0, part0, merge);
    const unsigned tickets = 4224u;                                       // in the workspace
    if (threadIdx.x == 0) {
        ga_put(work, blockIdx.x, r0);
        __threadfence();
    }
    __shared__ bool last;
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + tickets), 263u) == 263u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    for (unsigned b = threadIdx.x; b < 264u; b += 256u) {
        r0 = r0 + ga_get<float>(work, b);
    }
    r0 = ga_block_reduce<8>(r0, part0, merge);
    if (threadIdx.x == 0) {
        out0[0u] = r0;
    }
}
