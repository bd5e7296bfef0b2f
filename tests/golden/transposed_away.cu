// k0_tiles: mul
//   in0 f32[501,1023], in1 f32[501,1023] -> out0 f32[1023,501]    6150276 bytes
//   tiles of 32 x 32, out0 turned in shared memory; 512 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_tiles(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    __shared__ float tile0[32][33];
    const unsigned lane = threadIdx.x % 32u;
    const unsigned deep = threadIdx.x / 32u;
    const unsigned top = blockIdx.x / 32u * 32u;
    const unsigned left = blockIdx.x % 32u * 32u;
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // compute along i1
        const unsigned down = u * 8u + deep;
        const unsigned i1 = left + lane;
        const unsigned i0 = top + down;
        if (i0 >= 501u || i1 >= 1023u) continue;
        const float x0 = in0[i0 * 1023u + i1];
        const float x1 = in1[i0 * 1023u + i1];
        tile0[lane][down] = x0 * x1;                                      // mul
    }
    __syncthreads();
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // write along i0
        const unsigned down = u * 8u + deep;
        const unsigned i0 = top + lane;
        const unsigned i1 = left + down;
        if (i0 >= 501u || i1 >= 1023u) continue;
        out0[i1 * 501u + i0] = tile0[down][lane];
    }
}
