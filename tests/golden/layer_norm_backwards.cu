// k0_rowcolumns: convert_element_type, reduce_sum, div, convert_element_type, sub, sub, square, mul, reduce_sum, div, convert_element_type, add, rsqrt, mul, mul, mul, mul, reduce_sum, mul, div, mul, mul, convert_element_type, div, mul, reduce_sum, neg, div, add_any, convert_element_type, reduce_sum, add_any, neg, convert_element_type, div, convert_element_type, add_any, reduce_sum_of_rows, reduce_sum_of_rows
//   in0 bf16[16384,4096], in1 bf16[16384,4096], in2 bf16[4096] -> out0 bf16[16384,4096], out1 f32[264,4096], out2 f32[264,4096]    411312128 bytes
//   16384 rows of 4096, 264 blocks over them, 256 threads a row, held in registers; columns in registers; 264 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_rowcolumns(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    const ga_bf16* __restrict__ in2,
    ga_bf16* __restrict__ out0,
    float* __restrict__ out1,
    float* __restrict__ out2) {
    __shared__ float part0[8];
    const unsigned lane = threadIdx.x;
    ga_vec<float, 4> sum0[4];                                             // reduce_sum_of_rows
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) sum0[u].v[e] = 0.0f;
    }
    ga_vec<float, 4> sum1[4];                                             // reduce_sum_of_rows
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) sum1[u].v[e] = 0.0f;
    }
    for (unsigned row = blockIdx.x; row < 16384u; row += 264u) {
        ga_vec<ga_bf16, 8> row0[2];
        ga_vec<ga_bf16, 8> row1[2];
        ga_vec<ga_bf16, 8> row2[2];
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // read the row
            const unsigned j = (u * 256u + lane) * 8u;
            row0[u] = ga_load<8>(in0 + row * 4096u + j);
            row1[u] = ga_load<8>(in1 + row * 4096u + j);
            row2[u] = ga_load<8>(in2 + j);
        }
        float r0 = 0.0f;                                                  // reduce_sum
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // pass 1 over the row
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v1 = (float)ga_value(row0[u].v[e]);           // convert_element_type
                r0 = r0 + v1;
            }
        }
        r0 = ga_block_reduce<8>(r0, part0, [](float p, float q) -> float { return p + q; });
        const float v2 = r0 / 4096.0f;                                    // div
        const float v3 = ga_round<ga_bf16>((float)v2);                    // convert_element_type
        float r4 = 0.0f;                                                  // reduce_sum
        float r5 = 0.0f;                                                  // reduce_sum
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // pass 2 over the row
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v6 = (float)ga_value(row0[u].v[e]);           // convert_element_type
                const float v7 = v6 - v2;                                 // sub
                const float v8 = v7 * v7;                                 // square
                r4 = r4 + v8;
                const float v9 = ga_round<ga_bf16>(ga_value(row1[u].v[e]) * ga_value(row2[u].v[e]));  // mul
                const float v10 = ga_round<ga_bf16>(ga_value(row0[u].v[e]) - v3);  // sub
                const float v11 = ga_round<ga_bf16>(v10 * v9);            // mul
                r5 = r5 + v11;
            }
        }
        r4 = ga_block_reduce<8>(r4, part0, [](float p, float q) -> float { return p + q; });
        r5 = ga_block_reduce<8>(r5, part0, [](float p, float q) -> float { return p + q; });
        const float v12 = ga_round<ga_bf16>(r5);
        const float v13 = r4 / 4096.0f;                                   // div
        const float v14 = ga_round<ga_bf16>((float)v13);                  // convert_element_type
        const float v15 = ga_round<ga_bf16>(v14 + 1.001358e-05f);         // add
        const float v16 = ga_round<ga_bf16>(ga_rsqrt(v15));
        const float v17 = ga_round<ga_bf16>(v16 / v15);                   // div
        const float v18 = ga_round<ga_bf16>(-0.5f * v17);                 // mul
        const float v19 = ga_round<ga_bf16>(v12 * v18);                   // mul
        const float v20 = (float)v19;                                     // convert_element_type
        const float v21 = v20 / 4096.0f;                                  // div
        float r22 = 0.0f;                                                 // reduce_sum
        float r23 = 0.0f;                                                 // reduce_sum
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // pass 3 over the row
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v24 = (float)ga_value(row0[u].v[e]);          // convert_element_type
                const float v25 = v24 - v2;                               // sub
                const float v26 = 2.0f * v25;                             // mul
                const float v27 = v21 * v26;                              // mul
                r22 = r22 + v27;
                const float v28 = ga_round<ga_bf16>(ga_value(row1[u].v[e]) * ga_value(row2[u].v[e]));  // mul
                const float v29 = ga_round<ga_bf16>(v28 * v16);           // mul
                r23 = r23 + v29;
            }
        }
        r22 = ga_block_reduce<8>(r22, part0, [](float p, float q) -> float { return p + q; });
        r23 = ga_block_reduce<8>(r23, part0, [](float p, float q) -> float { return p + q; });
        const float v30 = ga_round<ga_bf16>(r23);
        const float v31 = -r22;                                           // neg
        const float v32 = v31 / 4096.0f;                                  // div
        const float v33 = -v30;                                           // neg
        const float v34 = (float)v33;                                     // convert_element_type
        const float v35 = v34 / 4096.0f;                                  // div
        const float v36 = ga_round<ga_bf16>((float)v35);                  // convert_element_type
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // write the row
            const unsigned j = (u * 256u + lane) * 8u;
            ga_vec<ga_bf16, 8> y0;
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v37 = ga_round<ga_bf16>(ga_value(row1[u].v[e]) * ga_value(row2[u].v[e]));  // mul
                const float v38 = ga_round<ga_bf16>(v37 * v16);           // mul
                const float v39 = (float)ga_value(row0[u].v[e]);          // convert_element_type
                const float v40 = v39 - v2;                               // sub
                const float v41 = 2.0f * v40;                             // mul
                const float v42 = v21 * v41;                              // mul
                const float v43 = v42 + v32;                              // add_any
                const float v44 = ga_round<ga_bf16>((float)v43);          // convert_element_type
                const float v45 = ga_round<ga_bf16>(v44 + v38);           // add_any
                const float v46 = ga_round<ga_bf16>(v45 + v36);           // add_any
                const float v47 = ga_round<ga_bf16>(ga_value(row0[u].v[e]) - v3);  // sub
                const float v48 = ga_round<ga_bf16>(v47 * v16);           // mul
                const float v49 = ga_round<ga_bf16>(v48 * ga_value(row1[u].v[e]));  // mul
                sum0[u * 2u + e / 4u].v[e % 4u] = sum0[u * 2u + e / 4u].v[e % 4u] + v49;
                sum1[u * 2u + e / 4u].v[e % 4u] = sum1[u * 2u + e / 4u].v[e % 4u] + ga_value(row1[u].v[e]);
                y0.v[e] = ga_exact<ga_bf16>(v46);
            }
            ga_store(out0 + row * 4096u + j, y0);
        }
    }
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // what this block leaves
        const unsigned j = (u * 256u + lane) * 8u;
        ga_store(out1 + blockIdx.x * 4096u + j, sum0[u * 2u]);
        ga_store(out1 + blockIdx.x * 4096u + j + 4u, sum0[u * 2u + 1]);
        ga_store(out2 + blockIdx.x * 4096u + j, sum1[u * 2u]);
        ga_store(out2 + blockIdx.x * 4096u + j + 4u, sum1[u * 2u + 1]);
    }
}

// k1_columns: reduce_sum, reduce_sum
//   in0 f32[264,4096], in1 f32[264,4096] -> out0 bf16[4096], out1 bf16[4096]    8799232 bytes
//   4096 columns of 264, 8 threads a column, 2 blocks a column; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k1_columns(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    ga_bf16* __restrict__ out0,
    ga_bf16* __restrict__ out1,
    unsigned char* work) {
    __shared__ float part0[256];
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const unsigned block = blockIdx.x % 128u;
    const unsigned cut = blockIdx.x / 128u;
    const bool inside = block * 32u + lane < 4096u;
    const unsigned column = inside ? block * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    float r1 = 0.0f;                                                      // reduce_sum
    #pragma unroll 16
    for (unsigned j = cut * 8u + deep; j < 264u; j += 16u) {              // pass 1 down the columns
        const float x0 = in0[j * 4096u + column];
        r0 = r0 + x0;
        const float x1 = in1[j * 4096u + column];
        r1 = r1 + x1;
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, [](float p, float q) -> float { return p + q; });
    r1 = ga_column_reduce<8, 32>(r1, part0, [](float p, float q) -> float { return p + q; });
    if (deep == 0) {
        ga_put(work, cut * 4096u + block * 32u + lane, r0);
        ga_put(work + 131072u, cut * 4096u + block * 32u + lane, r1);
        __threadfence();
    }
    __shared__ bool last;
    __syncthreads();
    // The ticket wraps to 0, ready for the next launch.
    if (threadIdx.x == 0) last = atomicInc((unsigned*)(work + 262144u) + block, 1u) == 1u;
    __syncthreads();
    if (!last) return;
    __threadfence();
    r0 = 0.0f;
    for (unsigned b = deep; b < 2u; b += 8u) {
        r0 = r0 + ga_get<float>(work, b * 4096u + block * 32u + lane);
    }
    r1 = 0.0f;
    for (unsigned b = deep; b < 2u; b += 8u) {
        r1 = r1 + ga_get<float>(work + 131072u, b * 4096u + block * 32u + lane);
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, [](float p, float q) -> float { return p + q; });
    r1 = ga_column_reduce<8, 32>(r1, part0, [](float p, float q) -> float { return p + q; });
    const float v2 = ga_round<ga_bf16>(r0);
    const float v3 = ga_round<ga_bf16>(r1);
    if (deep == 0 && inside) {
        out0[column] = ga_exact<ga_bf16>(v2);
        out1[column] = ga_exact<ga_bf16>(v3);
    }
}
