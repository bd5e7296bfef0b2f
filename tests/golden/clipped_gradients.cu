// k0_batch: mul, reduce_sum
//   many arrays at once, each with its own sizes: float32, float32
extern "C" __global__ void __launch_bounds__(256) k0_batch(
    const unsigned long long* __restrict__ table,
    const unsigned* __restrict__ tiles,
    unsigned char* work) {
    __shared__ float part0[8];
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned* tile = tiles + blockIdx.x * 5u;                       // array, first, length, tiles before it, its tiles
    const unsigned long long* at = table + tile[0] * 2u;
    const float* __restrict__ in0 = (const float*)at[0] + tile[1];
    float* __restrict__ out0 = (float*)at[1];
    float r0 = 0.0f;                                                      // reduce_sum
    unsigned i = threadIdx.x * 4u;
    for (; i + 3076u <= tile[2]; i += 4096u) {                            // whole vectors
        ga_vec<float, 4> turn0[4];
        const float* const from0 = in0 + i;
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {                               // read
            turn0[u] = ga_load<4>(from0 + u * 1024u);
        }
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {                               // compute
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                const float v1 = turn0[u].v[e] * turn0[u].v[e];           // mul
                r0 = r0 + v1;
            }
        }
    }
    for (; i < tile[2]; i += 1024u) {
        const unsigned left = tile[2] - i;
        const ga_vec<float, 4> x0 = ga_load_part<4>(in0 + i, left);
        #pragma unroll
        for (unsigned e = 0; e < 4u && e < left; ++e) {
            const float v2 = x0.v[e] * x0.v[e];                           // mul
            r0 = r0 + v2;
        }
    }
    r0 = ga_block_reduce<8>(r0, part0, merge);
    const unsigned others = tile[4] - 1u;
    const unsigned tickets = gridDim.x * 16u;                             // in the workspace
    if (threadIdx.x == 0) {
        ga_put(work, blockIdx.x, r0);
        __threadfence();
    }
    __shared__ bool last;
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + tickets) + tile[0], others) == others;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    for (unsigned b = threadIdx.x; b < tile[4]; b += 256u) {
        r0 = r0 + ga_get<float>(work, tile[3] + b);
    }
    r0 = ga_block_reduce<8>(r0, part0, merge);
    if (threadIdx.x == 0) {
        out0[0u] = r0;
    }
}

// k1_map: add x6, sqrt, div, min
//   in0 f32[], in1 f32[], in2 f32[], in3 f32[], in4 f32[], in5 f32[] -> out0 f32[]    28 bytes
//   1 elements; 1 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k1_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    const float* __restrict__ in5,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= 1u) return;
    const float x0 = in0[i];
    const float v0 = 0.0f + x0;                                           // add
    const float x1 = in1[i];
    const float v1 = v0 + x1;                                             // add
    const float x2 = in2[i];
    const float v2 = v1 + x2;                                             // add
    const float x3 = in3[i];
    const float v3 = v2 + x3;                                             // add
    const float x4 = in4[i];
    const float v4 = v3 + x4;                                             // add
    const float x5 = in5[i];
    const float v5 = v4 + x5;                                             // add
    const float v6 = ga_sqrt(v5);
    const float v7 = 1.0f / v6;                                           // div
    out0[i] = ga_min(1.0f, v7);
}

// k2_batch: mul
//   many arrays at once, each with its own sizes: float32, float32, float32
extern "C" __global__ void __launch_bounds__(256) k2_batch(
    const unsigned long long* __restrict__ table,
    const unsigned* __restrict__ tiles) {
    const unsigned* tile = tiles + blockIdx.x * 3u;                       // array, first, length
    const unsigned long long* at = table + tile[0] * 3u;
    const float* __restrict__ in0 = (const float*)at[0] + tile[1];
    const float* __restrict__ in1 = (const float*)at[1];
    float* __restrict__ out0 = (float*)at[2] + tile[1];
    const float x0 = in1[0u];
    #pragma unroll 2
    for (unsigned i = threadIdx.x * 4u; i < tile[2]; i += 1024u) {
        const unsigned left = tile[2] - i;
        const ga_vec<float, 4> x1 = ga_load_part<4>(in0 + i, left);
        ga_vec<float, 4> y0;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            y0.v[e] = x1.v[e] * x0;                                       // mul
        }
        ga_store_part(out0 + i, y0, left);
    }
}
