// k0_rows: square, convert_element_type, reduce_sum, div, convert_element_type, add, rsqrt, mul, mul
//   in0 bf16[8192,4096], in1 bf16[4096] -> out0 bf16[8192,4096]    134225920 bytes
//   8192 rows of 4096, 128 threads a row, held in registers; 8192 x 128 threads
extern "C" __global__ void __launch_bounds__(128) k0_rows(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    ga_bf16* __restrict__ out0) {
    __shared__ float part0[4];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    ga_vec<ga_bf16, 8> row0[4];
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // read the row
        const unsigned j = (u * 128u + lane) * 8u;
        row0[u] = ga_load<8>(in0 + row * 4096u + j);
    }
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 1 over the row
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float v1 = ga_round<ga_bf16>(ga_value(row0[u].v[e]) * ga_value(row0[u].v[e]));  // square
            const float v2 = (float)v1;                                   // convert_element_type
            r0 = r0 + v2;
        }
    }
    r0 = ga_block_reduce<4>(r0, part0, [](float p, float q) -> float { return p + q; });
    const float v3 = r0 / 4096.0f;                                        // div
    const float v4 = ga_round<ga_bf16>((float)v3);                        // convert_element_type
    const float v5 = ga_round<ga_bf16>(v4 + 9.983778e-07f);               // add
    const float v6 = ga_round<ga_bf16>(ga_rsqrt(v5));
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // write the row
        const unsigned j = (u * 128u + lane) * 8u;
        const ga_vec<ga_bf16, 8> x1 = ga_load<8>(in1 + j);
        ga_vec<ga_bf16, 8> y0;
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float v7 = ga_round<ga_bf16>(ga_value(row0[u].v[e]) * v6);  // mul
            const float v8 = ga_round<ga_bf16>(v7 * ga_value(x1.v[e]));   // mul
            y0.v[e] = ga_exact<ga_bf16>(v8);
        }
        ga_store(out0 + row * 4096u + j, y0);
    }
}
