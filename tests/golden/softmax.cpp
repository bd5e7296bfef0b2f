// k0_rows: reduce_max, sub, exp, reduce_sum, div
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    33554432 bytes
//   4096 rows of 1024, 64 lanes
GA_TASKS k0_rows(ga_index first, ga_index last, const float* GA_ALONE in0, float* GA_ALONE out0) {
    for (ga_index row = first; row < last; ++row) {
        GA_LOCAL float kept0[1024];
        ga_parts<float, 64> r0(-GA_INFF);                                 // reduce_max
        ga_lanes<64>(0, 1024, [&](ga_index i1, ga_index lane) GA_STEP {   // pass 1 over the row
            const float x0 = in0[row * 1024 + i1];
            r0[lane] = ga_max(r0[lane], x0);
        });
        const float r1 = ga_merged(r0, [](float p, float q) -> float { return ga_max(p, q); });
        ga_parts<float, 64> r2(0.0f);                                     // reduce_sum
        ga_lanes<64>(0, 1024, [&](ga_index i1, ga_index lane) GA_STEP {   // pass 2 over the row
            const float x0 = in0[row * 1024 + i1];
            const float v3 = x0 - r1;                                     // sub
            const float v4 = ga_exp(v3);
            kept0[i1] = v4;
            r2[lane] = r2[lane] + v4;
        });
        const float r5 = ga_merged(r2, [](float p, float q) -> float { return p + q; });
        for (ga_index block = 0; block < 1024; block += 512) {
            const ga_index over = block + 512;
            GA_LOCAL float near0[512];
            for (ga_index i1 = block; i1 < over; ++i1) {                  // write the row
                near0[i1 - block] = kept0[i1] / r5;                       // div
            }
            ga_stream(out0 + row * 1024 + block, near0, over - block);    // past the cache
        }
    }
    ga_streamed();
}
GA_CALLED int call_k0_rows(ga_array* in0, ga_array* out0) {
    if (const int why = ga_refused(in0, out0)) return why;
    ga_tasks(4096, 16, k0_rows, in0, out0);
    return 0;
}
