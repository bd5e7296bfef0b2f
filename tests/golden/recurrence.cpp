// k0_scan: associative_scan
//   in0 f32[4096,512], in1 f32[4096,512] -> out0 f32[4096,512]    25165824 bytes
//   scan of 512 rows
GA_TASKS k0_scan(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    const float* GA_ALONE in1,
    float* GA_ALONE out0) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index left = task * 64;
        GA_LOCAL float s1[64];
        for (ga_index lane = 0; lane < 64; ++lane) {
            const ga_index i = left + lane;
            const float x0 = in1[0 * 512 + i];
            s1[lane] = x0;
            out0[0 * 512 + i] = s1[lane];
        }
        for (ga_index j = 1; j < 4096; ++j) {
            for (ga_index lane = 0; lane < 64; ++lane) {
                const ga_index i = left + lane;
                const float x0 = in0[j * 512 + i];
                const float x1 = in1[j * 512 + i];
                const float m0 = x0 * s1[lane];
                const float m1 = m0 + x1;
                s1[lane] = m1;
                out0[j * 512 + i] = s1[lane];
            }
        }
    }
}
GA_CALLED int call_k0_scan(ga_array* in0, ga_array* in1, ga_array* out0) {
    if (const int why = ga_refused(in0, in1, out0)) return why;
    ga_tasks(8, 1, k0_scan, in0, in1, out0);
    return 0;
}
