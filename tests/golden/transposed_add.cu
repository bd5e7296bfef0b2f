// k0_tiles: add, mul
//   in0 f32[512,512], in1 f32[512,512] -> out0 f32[512,512]    3145728 bytes
//   tiles of 32 x 32, in0 turned in shared memory; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_tiles(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    __shared__ float tile0[32][33];
    const unsigned lane = threadIdx.x % 8u * 4u;
    const unsigned deep = threadIdx.x / 8u;
    const unsigned top = blockIdx.x / 16u * 32u;
    const unsigned left = blockIdx.x % 16u * 32u;
    ga_vec<float, 4> ahead0;
    {                                                                     // read along i1
        const unsigned i1 = left + lane;
        const unsigned i0 = top + deep;
        ahead0 = ga_load<4>(in1 + i0 * 512u + i1);
    }
    {                                                                     // read along i0
        const unsigned i0 = top + lane;
        const unsigned i1 = left + deep;
        const ga_vec<float, 4> x0 = ga_load<4>(in0 + i1 * 512u + i0);
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            tile0[deep][lane + e] = x0.v[e];
        }
    }
    __syncthreads();
    {                                                                     // compute along i1
        const unsigned i1 = left + lane;
        const unsigned i0 = top + deep;
        ga_vec<float, 4> y0;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float x1 = tile0[lane + e][deep];
            const float v0 = x1 + ahead0.v[e];                            // add
            y0.v[e] = v0 * 3.0f;                                          // mul
        }
        ga_store(out0 + i0 * 512u + i1, y0);
    }
}
