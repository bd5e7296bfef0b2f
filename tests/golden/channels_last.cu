// k0_tiles: mul
//   in0 f32[32,64,56,56] -> out0 f32[32,56,56,64]    51380224 bytes
//   tiles of 32 x 32, in0 turned in shared memory; 6272 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_tiles(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float tile0[32][33];
    const unsigned lane = threadIdx.x % 8u * 4u;
    const unsigned deep = threadIdx.x / 8u;
    const unsigned batch = blockIdx.x / 196u;
    const unsigned top = blockIdx.x / 2u % 98u * 32u;
    const unsigned left = blockIdx.x % 2u * 32u;
    {                                                                     // read along i1
        const unsigned i1 = top + lane;
        const unsigned i2 = left + deep;
        const ga_vec<float, 4> x0 = ga_load<4>(in0 + batch * 200704u + i2 * 3136u + i1);
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            tile0[deep][lane + e] = x0.v[e];
        }
    }
    __syncthreads();
    {                                                                     // compute along i2
        const unsigned i2 = left + lane;
        const unsigned i1 = top + deep;
        ga_vec<float, 4> y0;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float x0 = tile0[lane + e][deep];
            y0.v[e] = x0 * 2.0f;                                          // mul
        }
        ga_store(out0 + batch * 200704u + i1 * 64u + i2, y0);
    }
}
