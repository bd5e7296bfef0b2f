// k0_scan: associative_scan
//   in0 f32[4096,512], in1 f32[4096,512] -> out0 f32[4096,512]    25976856 bytes
//   scan of 512 columns of 4096, in tiles that look back, 16 elements a thread; 512 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_scan(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0,
    unsigned char* work) {
    struct state { float s0, s1; bool some; };
    __shared__ state part[256];
    const unsigned lane = threadIdx.x % 32u;                              // the column of the tile
    __shared__ unsigned drawn, launch;
    if (threadIdx.x == 0) {
        drawn = atomicInc((unsigned*)work, 511u);
        launch = ((volatile unsigned*)work)[2] + 1u;
    }
    __syncthreads();
    const unsigned tile = drawn / 16u;
    const unsigned i = drawn % 16u * 32u + lane;
    const unsigned j = tile * 128u + threadIdx.x / 32u * 16u;
    const auto merge = [](state p, state q) -> state {
        if (!p.some || !q.some) return p.some ? p : q;
        const float m0 = p.s0 * q.s0;
        const float m1 = q.s0 * p.s1;
        const float m2 = m1 + q.s1;
        return {m0, m2, true};
    };
    state run[16], sum = state{};
    #pragma unroll
    for (unsigned e = 0; e < 16u; ++e) {
        if (j + e < 4096u) {
            const float x0 = in0[(j + e) * 512u + i];
            const float x1 = in1[(j + e) * 512u + i];
            sum = merge(sum, state{x0, x1, true});
        }
        run[e] = sum;
    }
    state whole;
    state ahead = ga_column_scan<8, 32>(sum, part, state{}, whole, merge);  // of this thread's
    const state before = ga_look_back_down<8, 32>((unsigned long long*)work + 2, 17408u, launch, 512u, i, 32u, tile, whole, part, state{}, merge);
    ahead = merge(before, ahead);
    #pragma unroll
    for (unsigned e = 0; e < 16u; ++e) {
        if (j + e < 4096u) {
            const state y = merge(ahead, run[e]);
            out0[(j + e) * 512u + i] = y.s1;
        }
    }
    // Nobody asks for the number of this launch any more when the last block is here.
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicInc((unsigned*)work + 1, 511u) == 511u) {
            __threadfence();
            ((volatile unsigned*)work)[2] = launch;
        }
    }
}
