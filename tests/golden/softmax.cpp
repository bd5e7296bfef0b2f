// k0_rows: reduce_max, max, sub, exp, reduce_sum, div
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    33554432 bytes
//   4096 rows of 1024, 32 lanes
GA_TASKS k0_rows(ga_index first, ga_index last, const float* GA_ALONE in0, float* GA_ALONE out0) {
    for (ga_index row = first; row < last; ++row) {
        float kept0[1024];
        ga_parts<float, 32> r0(-GA_INFF);                                 // reduce_max
        ga_lanes<32>(0, 1024, [&](ga_index i1, ga_index lane) GA_STEP {   // pass 1 over the row
            const float x0 = in0[row * 1024 + i1];
            r0[lane] = ga_max(r0[lane], x0);
        });
        const float r1 = ga_merged(r0, [](float p, float q) -> float { return ga_max(p, q); });
        const float v2 = ga_max(-GA_INFF, r1);
        ga_parts<float, 32> r3(0.0f);                                     // reduce_sum
        ga_lanes<32>(0, 1024, [&](ga_index i1, ga_index lane) GA_STEP {   // pass 2 over the row
            const float x0 = in0[row * 1024 + i1];
            const float v4 = x0 - v2;                                     // sub
            const float v5 = ga_exp(v4);
            kept0[i1] = v5;
            r3[lane] = r3[lane] + v5;
        });
        const float r6 = ga_merged(r3, [](float p, float q) -> float { return p + q; });
        for (ga_index block = 0; block < 1024; block += 512) {
            const ga_index over = ga_least(block + 512, 1024);
            float near0[512];
            for (ga_index i1 = block; i1 < over; ++i1) {                  // write the row
                const float v7 = kept0[i1] / r6;                          // div
                near0[i1 - block] = v7;
            }
            ga_stream(out0 + row * 1024 + block, near0, over - block);    // past the cache
        }
    }
    ga_streamed();
}
GA_CALLED int call_k0_rows(ga_array* in0, ga_array* out0) {
    if (!ga_plain(in0, out0)) return 1;
    ga_tasks(4096, 16, k0_rows, in0, out0);
    return 0;
}
