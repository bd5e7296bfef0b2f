// k0_rows: reduce_max, sub, exp, convert_element_type x2, reduce_sum, div
//   in0 bf16[1056,131072] -> out0 bf16[1056,131072]    553648128 bytes
//   1056 rows of 131072, 1024 threads a row, held in shared memory of the launch and registers; 1056 x 1024 threads
extern "C" __global__ void __launch_bounds__(1024, 1) k0_rows(
    const ga_bf16* __restrict__ in0,
    ga_bf16* __restrict__ out0) {
    __shared__ float part0[32];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    ga_vec<ga_bf16, 8> row0[2];
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // read the beginning
        const unsigned j = (u * 1024u + lane) * 8u;
        row0[u] = ga_load<8>(in0 + row * 131072u + j);
    }
    GA_ROOM(room, 229376);                                                // shared memory of the launch
    const unsigned fits = GA_ROOM_BYTES(room) / 16u;
    ga_vec<ga_bf16, 8>* const rest0 = (ga_vec<ga_bf16, 8>*)(room);
    float r0 = -GA_INFF;                                                  // reduce_max
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // pass 1 over the row
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            r0 = ga_max(r0, ga_value(row0[u].v[e]));
        }
    }
    for (unsigned k = 16384u + lane * 8u; k < 131072u; k += 57344u) {     // pass 1 over the row
        ga_vec<ga_bf16, 8> turn0[7];
        const ga_bf16* const from0 = in0 + (row * 131072u + k);
        #pragma unroll
        for (unsigned u = 0; u < 7u; ++u) {                               // read
            turn0[u] = ga_load<8>(from0 + u * 8192u);
        }
        #pragma unroll
        for (unsigned u = 0; u < 7u; ++u) {                               // compute
            const unsigned j = k + u * 8192u;
            const unsigned at = j / 8u - 2048u;
            if (at < fits) rest0[at] = turn0[u];
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                r0 = ga_max(r0, ga_value(turn0[u].v[e]));
            }
        }
    }
    r0 = ga_block_reduce<32>(r0, part0, [](float p, float q) -> float { return ga_max(p, q); });
    const float v1 = ga_round<ga_bf16>(r0);
    float r2 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // pass 2 over the row
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float v3 = ga_minus<ga_bf16>(ga_value(row0[u].v[e]), v1);  // sub
            const float v4 = ga_round<ga_bf16>(ga_exp(v3));
            r2 = r2 + v4;
        }
    }
    for (unsigned k = 16384u + lane * 8u; k < 131072u; k += 16384u) {     // pass 2 over the row
        ga_vec<ga_bf16, 8> left0[2];
        if ((k + 8192u) / 8u - 2048u < fits) {
            #pragma unroll
            for (unsigned u = 0; u < 2u; ++u) {                           // read what is left of it
                const unsigned j = k + u * 8192u;
                const unsigned at = j / 8u - 2048u;
                left0[u] = rest0[at];
            }
        } else {
            #pragma unroll
            for (unsigned u = 0; u < 2u; ++u) {                           // read again
                const unsigned j = k + u * 8192u;
                left0[u] = ga_load<8>(in0 + row * 131072u + j);
            }
        }
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // compute
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v5 = ga_minus<ga_bf16>(ga_value(left0[u].v[e]), v1);  // sub
                const float v6 = ga_round<ga_bf16>(ga_exp(v5));
                r2 = r2 + v6;
            }
        }
    }
    r2 = ga_block_reduce<32>(r2, part0, [](float p, float q) -> float { return p + q; });
    const float v7 = ga_round<ga_bf16>(r2);                               // convert_element_type
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // write the row
        const unsigned j = (u * 1024u + lane) * 8u;
        ga_vec<ga_bf16, 8> y0;
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float v8 = ga_minus<ga_bf16>(ga_value(row0[u].v[e]), v1);  // sub
            const float v9 = ga_round<ga_bf16>(ga_exp(v8));
            const float v10 = ga_over<ga_bf16>(v9, v7);                   // div
            y0.v[e] = ga_exact<ga_bf16>(v10);
        }
        ga_store(out0 + row * 131072u + j, y0);
    }
    for (unsigned k = 16384u + lane * 8u; k < 131072u; k += 16384u) {     // write the row
        ga_vec<ga_bf16, 8> left0[2];
        if ((k + 8192u) / 8u - 2048u < fits) {
            #pragma unroll
            for (unsigned u = 0; u < 2u; ++u) {                           // read what is left of it
                const unsigned j = k + u * 8192u;
                const unsigned at = j / 8u - 2048u;
                left0[u] = rest0[at];
            }
        } else {
            #pragma unroll
            for (unsigned u = 0; u < 2u; ++u) {                           // read again
                const unsigned j = k + u * 8192u;
                left0[u] = ga_load<8>(in0 + row * 131072u + j);
            }
        }
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {                               // compute
            const unsigned j = k + u * 8192u;
            ga_vec<ga_bf16, 8> y0;
            #pragma unroll
            for (unsigned e = 0; e < 8u; ++e) {
                const float v11 = ga_minus<ga_bf16>(ga_value(left0[u].v[e]), v1);  // sub
                const float v12 = ga_round<ga_bf16>(ga_exp(v11));
                const float v13 = ga_over<ga_bf16>(v12, v7);              // div
                y0.v[e] = ga_exact<ga_bf16>(v13);
            }
            ga_store(out0 + row * 131072u + j, y0);
        }
    }
}
