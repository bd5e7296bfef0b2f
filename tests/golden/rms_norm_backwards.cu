// k0_rowcolumns: square, reduce_sum x2, div x3, add, rsqrt, mul x9, add_any, reduce_sum_of_rows
//   in0 f32[16384,2048], in1 f32[16384,2048], in2 f32[2048] -> out0 f32[16384,2048], out1 f32[264,2048]    404824064 bytes
//   16384 rows of 2048, 264 blocks over them, 256 threads a row, held in registers; columns in registers; 264 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 2) k0_rowcolumns(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    float* __restrict__ out0,
    float* __restrict__ out1) {
    __shared__ float part0[16];
    const unsigned lane = threadIdx.x;
    ga_vec<float, 4> sum0[2];                                             // reduce_sum_of_rows
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) sum0[u].v[e] = 0.0f;
    }
    ga_vec<float, 4> same0[2];
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // read what all rows share
        const unsigned j = (u * 256u + lane) * 4u;
        same0[u] = ga_load<4>(in2 + j);
    }
    for (unsigned row = blockIdx.x; row < 16384u; row += 264u) {
        ga_vec<float, 4> kept0[2];
        ga_vec<float, 4> row0[2];
        ga_vec<float, 4> row1[2];
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // read the row
            const unsigned j = (u * 256u + lane) * 4u;
            row0[u] = ga_load<4>(in0 + row * 2048u + j);
            row1[u] = ga_load<4>(in1 + row * 2048u + j);
        }
        if (row + 264u < 16384u) {
            const unsigned next = row + 264u;
            #pragma unroll
            for (unsigned u = 0; u < 2u; ++u) {                           // ask for the next row
                const unsigned j = (u * 256u + lane) * 4u;
                ga_prefetch(in0 + next * 2048u + j);
                ga_prefetch(in1 + next * 2048u + j);
            }
        }
        float r0 = 0.0f;                                                  // reduce_sum
        float r1 = 0.0f;                                                  // reduce_sum
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // pass 1 over the row
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                const float v2 = row0[u].v[e] * row0[u].v[e];             // square
                r0 = r0 + v2;
                const float v3 = row1[u].v[e] * same0[u].v[e];            // mul
                kept0[u].v[e] = v3;
                const float v4 = row0[u].v[e] * v3;                       // mul
                r1 = r1 + v4;
            }
        }
        ga_block_reduce_each<8>(part0, [](float p, float q) -> float { return p + q; }, r0, r1);
        const float v5 = r0 / 2048.0f;                                    // div
        const float v6 = v5 + 1.0e-06f;                                   // add
        const float v7 = ga_rsqrt(v6);
        const float v8 = v7 / v6;                                         // div
        const float v9 = -0.5f * v8;                                      // mul
        const float v10 = r1 * v9;                                        // mul
        const float v11 = v10 / 2048.0f;                                  // div
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // write the row
            const unsigned j = (u * 256u + lane) * 4u;
            ga_vec<float, 4> y0;
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                const float v12 = 2.0f * row0[u].v[e];                    // mul
                const float v13 = v11 * v12;                              // mul
                const float v14 = kept0[u].v[e] * v7;                     // mul
                const float v15 = v14 + v13;                              // add_any
                const float v16 = row0[u].v[e] * v7;                      // mul
                const float v17 = v16 * row1[u].v[e];                     // mul
                sum0[u].v[e] = sum0[u].v[e] + v17;
                y0.v[e] = v15;
            }
            ga_store(out0 + row * 2048u + j, y0);
        }
    }
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // what this block leaves
        const unsigned j = (u * 256u + lane) * 4u;
        ga_store(out1 + blockIdx.x * 2048u + j, sum0[u]);
    }
}

// k1_columns: reduce_sum
//   in0 f32[264,2048] -> out0 f32[2048]    2204160 bytes
//   2048 columns of 264, 8 threads a column, 2 blocks a column; 128 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 1) k1_columns(
    const float* __restrict__ in0,
    float* __restrict__ out0,
    unsigned char* work) {
    __shared__ float part0[256];
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const unsigned block = blockIdx.x % 64u;
    const unsigned cut = blockIdx.x / 64u;
    const bool inside = block * 32u + lane < 2048u;
    const unsigned column = inside ? block * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll 32
    for (unsigned j = cut * 8u + deep; j < 264u; j += 16u) {              // pass 1 down the columns
        const float x0 = in0[j * 2048u + column];
        r0 = r0 + x0;
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    const unsigned tickets = 65536u;                                      // in the workspace
    if (deep == 0) {
        ga_put(work, cut * 2048u + block * 32u + lane, r0);
        __threadfence();
    }
    __shared__ bool last;
    __syncthreads();
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + tickets) + block, 1u) == 1u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    for (unsigned b = deep; b < 2u; b += 8u) {
        r0 = r0 + ga_get<float>(work, b * 2048u + block * 32u + lane);
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    if (deep == 0 && inside) {
        out0[column] = r0;
    }
}
