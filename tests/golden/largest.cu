// k0_top: top_k
//   in0 f32[1024,50257] -> out0 f32[1024,8], out1 i32[1024,8]    205950976 bytes
//   the 8 largest of 1024 rows of 50257; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_top(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    int* __restrict__ out1) {
    __shared__ unsigned long long part[64];
    const unsigned row = blockIdx.x;
    unsigned long long top[8] = {};                                       // the largest first
    #pragma unroll 8
    for (unsigned j = threadIdx.x; j < 50257u; j += 256u) {               // the row
        ga_top_take(top, ga_ranked((unsigned)ga_order(in0[row * 50257u + j]) ^ 0x80000000u, j));
    }
    ga_top_block<8>(top, part);
    if (threadIdx.x >= 8u) return;
    const unsigned from = ~(unsigned)part[threadIdx.x];
    out0[row * 8u + threadIdx.x] = in0[row * 50257u + from];
    out1[row * 8u + threadIdx.x] = (int)from;
}
