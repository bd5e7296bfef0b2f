// k0_tiles: add
//   in0 bf16[24,1000,72], in1 bf16[24,72,1000] -> out0 bf16[24,72,1000]    10368000 bytes
//   tiles of 64 x 64, in0 turned in shared memory; 768 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_tiles(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    ga_bf16* __restrict__ out0) {
    __shared__ ga_bf16 tile0[64][65];
    const unsigned lane = threadIdx.x % 8u * 8u;
    const unsigned deep = threadIdx.x / 8u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned top = blockIdx.x / 16u % 2u * 64u;
    const unsigned left = blockIdx.x % 16u * 64u;
    ga_vec<ga_bf16, 8> ahead0[2];
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // read along i2
        const unsigned down = deep * 2u + u;
        const unsigned i2 = left + lane;
        const unsigned i1 = top + down;
        if (i1 >= 72u || i2 >= 1000u) continue;
        ahead0[u] = ga_load<8>(in1 + batch * 72000u + i1 * 1000u + i2);
    }
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // read along i1
        const unsigned down = deep * 2u + u;
        const unsigned i1 = top + lane;
        const unsigned i2 = left + down;
        if (i1 >= 72u || i2 >= 1000u) continue;
        const ga_vec<ga_bf16, 8> x0 = ga_load<8>(in0 + batch * 72000u + i2 * 72u + i1);
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            tile0[down][lane + e] = x0.v[e];
        }
    }
    __syncthreads();
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // compute along i2
        const unsigned down = deep * 2u + u;
        const unsigned i2 = left + lane;
        const unsigned i1 = top + down;
        if (i1 >= 72u || i2 >= 1000u) continue;
        ga_vec<ga_bf16, 8> y0;
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float x1 = ga_value(tile0[lane + e][down]);
            const float v0 = ga_plus<ga_bf16>(x1, ga_value(ahead0[u].v[e]));  // add
            y0.v[e] = ga_exact<ga_bf16>(v0);
        }
        ga_store(out0 + batch * 72000u + i1 * 1000u + i2, y0);
    }
}
