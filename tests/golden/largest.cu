// k0_top: top_k
//   in0 f32[1024,50257] -> out0 f32[1024,8], out1 i32[1024,8]    205950976 bytes
//   the 8 largest of 1024 rows of 50257; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_top(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    int* __restrict__ out1) {
    __shared__ unsigned long long waiting[2304];
    const unsigned row = blockIdx.x;
    ga_top<8> top = {};
    for (unsigned first = 0; first < 50257u; first += 2048u) {            // the row
        unsigned long long x[8];
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {
            const unsigned j = first + u * 256u + threadIdx.x;
            x[u] = 0;
            if (j >= 50257u) continue;
            x[u] = ga_ranked((unsigned)ga_order(in0[row * 50257u + j]) ^ 0x80000000u, j);
        }
        ga_top_take(top, x, waiting + threadIdx.x / 32u * 288u);
    }
    ga_top_block<8, 288>(top, waiting);
    if (threadIdx.x >= 8u) return;
    const unsigned from = ~(unsigned)top.list[0];
    out0[row * 8u + threadIdx.x] = in0[row * 50257u + from];
    out1[row * 8u + threadIdx.x] = (int)from;
}
