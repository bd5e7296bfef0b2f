// k0_scan: cumsum
//   in0 f32[4194304] -> out0 f32[4194304]    33571368 bytes
//   scan of 1 rows of 4194304, in tiles that look back, 16 elements a thread; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_scan(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    unsigned char* work) {
    __shared__ float part[8];
    const unsigned lane = threadIdx.x;
    __shared__ unsigned drawn, launch;
    if (threadIdx.x == 0) {
        drawn = atomicInc((unsigned*)work, 1023u);
        launch = ((volatile unsigned*)work)[2] + 1u;
    }
    __syncthreads();
    const unsigned piece = drawn;
    const unsigned begin = piece * 4096u;
    const unsigned end = begin + 4096u;
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned j = begin + lane / 32u * 512u + lane % 32u * 4u;
    float run[16], far[4], sum = -0.0f;
    #pragma unroll
    for (unsigned q = 0; q < 4u; ++q) {
        float own = -0.0f, all;
        if (j + q * 128u < end) {
            const ga_vec<float, 4> x = ga_load<4>(in0 + (j + q * 128u));
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                run[q * 4u + e] = own = own + x.v[e];
            }
        }
        far[q] = sum + ga_warp_scan<32>(own, -0.0f, all, merge);          // what the warp has before
        sum = sum + all;
    }
    float whole;
    float ahead = ga_scan_of_warps<8>(sum, part, -0.0f, whole, merge);    // of this thread's
    __shared__ float before;
    if (threadIdx.x < 32u) {
        const float found = ga_look_back((unsigned long long*)work + 2, 1057u, launch, 1024u, piece, whole, -0.0f, merge);
        if (threadIdx.x == 0) before = found;
    }
    __syncthreads();
    ahead = before + ahead;
    #pragma unroll
    for (unsigned q = 0; q < 4u; ++q) {
        if (j + q * 128u < end) {
            ga_vec<float, 4> y;
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                y.v[e] = ahead + (far[q] + run[q * 4u + e]);
            }
            ga_store(out0 + (j + q * 128u), y);
        }
    }
    // Nobody asks for the number of this launch any more when the last block is here.
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicInc((unsigned*)work + 1, 1023u) == 1023u) {
            __threadfence();
            ((volatile unsigned*)work)[2] = launch;
        }
    }
}
