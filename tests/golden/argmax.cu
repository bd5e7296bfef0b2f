// k0_rows: argmax
//   in0 f32[1048576] -> out0 i32[]    4202508 bytes
//   1048576 elements, 256 partial results each, merged in order; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 2) k0_rows(
    const float* __restrict__ in0,
    int* __restrict__ out0,
    unsigned char* work) {
    __shared__ ga_arg<float> part0[8];
    const auto merge = [](ga_arg<float> p, ga_arg<float> q) -> ga_arg<float> { return ga_argmax(p, q); };
    ga_arg<float> r0 = ga_arg<float>{-GA_INFF, ~0ull};                    // argmax
    #pragma unroll 8
    for (unsigned j = (blockIdx.x * 256u + threadIdx.x) * 4u; j < 1048576u; j += 262144u) {
        const ga_vec<float, 4> x0 = ga_load<4>(in0 + j);
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            r0 = ga_argmax_next(r0, ga_arg<float>{x0.v[e], (j + e)});
        }
    }
    r0 = ga_block_reduce<8>(r0, part0, merge);
    const unsigned tickets = 4096u;                                       // in the workspace
    if (threadIdx.x == 0) {
        ga_put(work, blockIdx.x, r0);
        __threadfence();
    }
    __shared__ bool last;
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + tickets), 255u) == 255u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = ga_arg<float>{-GA_INFF, ~0ull};
    for (unsigned b = threadIdx.x; b < 256u; b += 256u) {
        r0 = ga_argmax(r0, ga_get<ga_arg<float>>(work, b));
    }
    r0 = ga_block_reduce<8>(r0, part0, merge);
    const int v1 = r0.at;
    if (threadIdx.x == 0) {
        out0[0u] = v1;
    }
}
