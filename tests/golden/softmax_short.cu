// k0_rows: reduce_max, sub, exp, convert_element_type x2, reduce_sum, div
//   in0 bf16[1001,48] -> out0 bf16[1001,48]    192192 bytes
//   1001 rows of 48, 8 threads a row, held in registers; 32 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_rows(
    const ga_bf16* __restrict__ in0,
    ga_bf16* __restrict__ out0) {
    const unsigned lane = threadIdx.x % 8u;
    const bool inside = blockIdx.x * 32u + threadIdx.x / 8u < 1001u;
    const unsigned row = inside ? blockIdx.x * 32u + threadIdx.x / 8u : 0u;
    ga_vec<ga_bf16, 8> kept0;
    ga_vec<ga_bf16, 8> row0;
    if (lane * 8u < 48u) {                                                // read the row
        const unsigned j = lane * 8u;
        row0 = ga_load<8>(in0 + row * 48u + j);
    }
    float r0 = -GA_INFF;                                                  // reduce_max
    if (lane * 8u < 48u) {                                                // pass 1 over the row
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            r0 = ga_max(r0, ga_value(row0.v[e]));
        }
    }
    r0 = ga_warp_reduce<8>(r0, [](float p, float q) -> float { return ga_max(p, q); });
    const float v1 = ga_round<ga_bf16>(r0);
    float r2 = 0.0f;                                                      // reduce_sum
    if (lane * 8u < 48u) {                                                // pass 2 over the row
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float v3 = ga_minus<ga_bf16>(ga_value(row0.v[e]), v1);  // sub
            const float v4 = ga_round<ga_bf16>(ga_exp(v3));
            kept0.v[e] = ga_exact<ga_bf16>(v4);
            r2 = r2 + v4;
        }
    }
    r2 = ga_warp_reduce<8>(r2, [](float p, float q) -> float { return p + q; });
    const float v5 = ga_round<ga_bf16>(r2);                               // convert_element_type
    if (!inside) return;
    if (lane * 8u < 48u) {                                                // write the row
        const unsigned j = lane * 8u;
        ga_vec<ga_bf16, 8> y0;
        #pragma unroll
        for (unsigned e = 0; e < 8u; ++e) {
            const float v6 = ga_over<ga_bf16>(ga_value(kept0.v[e]), v5);  // div
            y0.v[e] = ga_exact<ga_bf16>(v6);
        }
        ga_store(out0 + row * 48u + j, y0);
    }
}
