// k0_rowcolumns: convert_element_type x7, reduce_sum x5, div x6, sub x2, square, mul x9, add, rsqrt, neg x2, add_any x3, reduce_sum_of_rows x2
//   in0 bf16[16384,4096], in1 bf16[16384,4096], in2 bf16[4096] -> out0 bf16[16384,4096], out1 f32[264,4096], out2 f32[264,4096]    411312128 bytes
//   16384 rows of 4096, 264 blocks over them, 256 threads a row, held in registers; columns in registers; 264 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 2) k0_rowcolumns(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    const ga_bf16* __restrict__ in2,
    ga_bf16* __restrict__ out0,
    float* __restrict__ out1,
    float* __restrict__ out2) {
    __shared__ float part0[16];
    const auto merge = [](float p, float q) -> float { return p + q; };
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
    ga_vec<ga_bf16, 8> same0[2];
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // read what all rows share
        const unsigned j = (u * 256u + lane) * 8u;
        same0[u] = ga_load<8>(in2 + j);
    }
    for (unsigned row = blockIdx.x; row < 16384u; row += 264u) {
        ga_vec<ga_bf16, 8> row0[2];
        ga_vec<ga_bf16, 8> row1[2];
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // read the row
            const unsigned j = (u * 256u + lane) * 8u;
            row0[u] = ga_load<8>(in0 + row * 4096u + j);
            row1[u] = ga_load<8>(in1 + row * 4096u + j);
        }
        if (row + 264u < 16384u) {
            const unsigned next = row + 264u;
            #pragma unroll
            for (unsigned u = 0; u < 2u; ++u) {                           // ask for the next row
                const unsigned j = (u * 256u + lane) * 8u;
                ga_prefetch(in0 + next * 4096u + j);
                ga_prefetch(in1 + next * 4096u + j);
            }
        }
        float r0 = 0.0f;                                                  // reduce_sum
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // pass 1 over the row
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v1 = ga_value(row0[u].v[e]);                  // convert_element_type
                r0 = r0 + v1;
            }
        }
        r0 = ga_block_reduce<8>(r0, part0, merge);
        const float v2 = r0 / 4096.0f;                                    // div
        const float v3 = ga_round<ga_bf16>(v2);                           // convert_element_type
        float r4 = 0.0f;                                                  // reduce_sum
        float r5 = 0.0f;                                                  // reduce_sum
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // pass 2 over the row
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v6 = ga_value(row0[u].v[e]);                  // convert_element_type
                const float v7 = v6 - v2;                                 // sub
                const float v8 = v7 * v7;                                 // square
                r4 = r4 + v8;
                const float v9 = ga_times<ga_bf16>(ga_value(row1[u].v[e]), ga_value(same0[u].v[e]));  // mul
                const float v10 = ga_minus<ga_bf16>(ga_value(row0[u].v[e]), v3);  // sub
                const float v11 = ga_times<ga_bf16>(v10, v9);             // mul
                r5 = r5 + v11;
            }
        }
        ga_block_reduce_each<8>(part0, merge, r4, r5);
        const float v12 = ga_round<ga_bf16>(r5);
        const float v13 = r4 / 4096.0f;                                   // div
        const float v14 = ga_round<ga_bf16>(v13);                         // convert_element_type
        const float v15 = ga_plus<ga_bf16>(v14, 1.001358e-05f);           // add
        const float v16 = ga_round<ga_bf16>(ga_rsqrt(v15));
        const float v17 = ga_over<ga_bf16>(v16, v15);                     // div
        const float v18 = ga_times<ga_bf16>(-0.5f, v17);                  // mul
        const float v19 = ga_times<ga_bf16>(v12, v18);                    // mul
        const float v20 = v19 / 4096.0f;                                  // div
        float r21 = 0.0f;                                                 // reduce_sum
        float r22 = 0.0f;                                                 // reduce_sum
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // pass 3 over the row
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v23 = ga_value(row0[u].v[e]);                 // convert_element_type
                const float v24 = v23 - v2;                               // sub
                const float v25 = 2.0f * v24;                             // mul
                const float v26 = v20 * v25;                              // mul
                r21 = r21 + v26;
                const float v27 = ga_times<ga_bf16>(ga_value(row1[u].v[e]), ga_value(same0[u].v[e]));  // mul
                const float v28 = ga_times<ga_bf16>(v27, v16);            // mul
                r22 = r22 + v28;
            }
        }
        ga_block_reduce_each<8>(part0, merge, r21, r22);
        const float v29 = ga_round<ga_bf16>(r22);
        const float v30 = -r21;                                           // neg
        const float v31 = v30 / 4096.0f;                                  // div
        const float v32 = -v29;                                           // neg
        const float v33 = v32 / 4096.0f;                                  // div
        const float v34 = ga_round<ga_bf16>(v33);                         // convert_element_type
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // write the row
            const unsigned j = (u * 256u + lane) * 8u;
            ga_vec<ga_bf16, 8> y0;
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v35 = ga_times<ga_bf16>(ga_value(row1[u].v[e]), ga_value(same0[u].v[e]));  // mul
                const float v36 = ga_times<ga_bf16>(v35, v16);            // mul
                const float v37 = ga_value(row0[u].v[e]);                 // convert_element_type
                const float v38 = v37 - v2;                               // sub
                const float v39 = 2.0f * v38;                             // mul
                const float v40 = v20 * v39;                              // mul
                const float v41 = v40 + v31;                              // add_any
                const float v42 = ga_round<ga_bf16>(v41);                 // convert_element_type
                const float v43 = ga_plus<ga_bf16>(v42, v36);             // add_any
                const float v44 = ga_plus<ga_bf16>(v43, v34);             // add_any
                const float v45 = ga_minus<ga_bf16>(ga_value(row0[u].v[e]), v3);  // sub
                const float v46 = ga_times<ga_bf16>(v45, v16);            // mul
                const float v47 = ga_times<ga_bf16>(v46, ga_value(row1[u].v[e]));  // mul
                sum0[u * 2u + e / 4u].v[e % 4u] = sum0[u * 2u + e / 4u].v[e % 4u] + v47;
                sum1[u * 2u + e / 4u].v[e % 4u] = sum1[u * 2u + e / 4u].v[e % 4u] + ga_value(row1[u].v[e]);
                y0.v[e] = ga_exact<ga_bf16>(v44);
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

// k1_columns: reduce_sum x2
//   in0 f32[264,4096], in1 f32[264,4096] -> out0 bf16[4096], out1 bf16[4096]    8799232 bytes
//   4096 columns of 264, 8 threads a column, 2 blocks a column; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 2) k1_columns(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    ga_bf16* __restrict__ out0,
    ga_bf16* __restrict__ out1,
    unsigned char* work) {
    __shared__ float part0[256];
    const auto merge = [](float p, float q) -> float { return p + q; };
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
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    r1 = ga_column_reduce<8, 32>(r1, part0, merge);
    const unsigned cell1 = 131072u, tickets = 262144u;                    // in the workspace
    if (deep == 0) {
        ga_put(work, cut * 4096u + block * 32u + lane, r0);
        ga_put(work + cell1, cut * 4096u + block * 32u + lane, r1);
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
        r0 = r0 + ga_get<float>(work, b * 4096u + block * 32u + lane);
    }
    r1 = 0.0f;
    for (unsigned b = deep; b < 2u; b += 8u) {
        r1 = r1 + ga_get<float>(work + cell1, b * 4096u + block * 32u + lane);
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    r1 = ga_column_reduce<8, 32>(r1, part0, merge);
    const float v2 = ga_round<ga_bf16>(r0);
    const float v3 = ga_round<ga_bf16>(r1);
    if (deep == 0 && inside) {
        out0[column] = ga_exact<ga_bf16>(v2);
        out1[column] = ga_exact<ga_bf16>(v3);
    }
}
