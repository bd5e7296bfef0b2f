// k0_columns: reduce_max, sub, exp, reduce_sum, div
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    33554432 bytes
//   1024 columns of 4096, 512 side by side
GA_TASKS k0_columns(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    float* GA_ALONE out0) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index left = task * 512;
        const ga_index width = 512;
        ga_parts<float, 512> r0(-GA_INFF);                                // reduce_max
        for (ga_index i0 = 0; i0 < 4096; ++i0) {
            for (ga_index lane = 0; lane < width; ++lane) {               // pass 1 down the columns
                const ga_index i1 = left + lane;
                const float x0 = in0[i0 * 1024 + i1];
                r0[lane] = ga_max(r0[lane], x0);
            }
        }
        ga_parts<float, 512> r1(0.0f);                                    // reduce_sum
        for (ga_index i0 = 0; i0 < 4096; ++i0) {
            for (ga_index lane = 0; lane < width; ++lane) {               // pass 2 down the columns
                const ga_index i1 = left + lane;
                const float x0 = in0[i0 * 1024 + i1];
                const float v2 = x0 - r0[lane];                           // sub
                const float v3 = ga_exp(v2);
                r1[lane] = r1[lane] + v3;
            }
        }
        for (ga_index i0 = 0; i0 < 4096; ++i0) {
            for (ga_index lane = 0; lane < width; ++lane) {               // write the columns
                const ga_index i1 = left + lane;
                const float x0 = in0[i0 * 1024 + i1];
                const float v4 = x0 - r0[lane];                           // sub
                const float v5 = ga_exp(v4);
                out0[i0 * 1024 + i1] = v5 / r1[lane];                     // div
            }
        }
    }
}
GA_CALLED int call_k0_columns(ga_array* in0, ga_array* out0) {
    if (const int why = ga_refused(in0, out0)) return why;
    ga_tasks(2, 1, k0_columns, in0, out0);
    return 0;
}
