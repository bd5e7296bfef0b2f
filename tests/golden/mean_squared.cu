// k0_rows: sub, integer_pow, reduce_sum, div
//   in0 f32[4194304], in1 f32[4194304] -> out0 f32[]    33556556 bytes
//   4194304 elements, 264 partial results each, merged in order; 264 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 2) k0_rows(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0,
    unsigned char* work) {
    __shared__ float part0[8];
    const auto merge = [](float p, float q) -> float { return p + q; };
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll 4
    for (unsigned j = (blockIdx.x * 256u + threadIdx.x) * 4u; j < 4194304u; j += 270336u) {
        const ga_vec<float, 4> x0 = ga_load<4>(in0 + j);
        const ga_vec<float, 4> x1 = ga_load<4>(in1 + j);
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v1 = x0.v[e] - x1.v[e];                           // sub
            const float v2 = v1 * v1;                                     // integer_pow
            r0 = r0 + v2;
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
    const float v3 = r0 / 4194304.0f;                                     // div
    if (threadIdx.x == 0) {
        out0[0u] = v3;
    }
}
