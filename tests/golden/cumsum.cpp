// k0_scan: cumsum
//   in0 f32[4096,1024] -> out0 f32[4096,1024]    33554432 bytes
//   scan of 4096 rows
GA_TASKS k0_scan(ga_index first, ga_index last, const float* GA_ALONE in0, float* GA_ALONE out0) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index left = task * 4;
        ga_parts<double, 4> sum(-0.0f);
        for (ga_index j = 0; j < 1024; ++j) {
            for (ga_index lane = 0; lane < 4; ++lane) {
                const ga_index i = left + lane;
                sum[lane] = sum[lane] + in0[i * 1024 + j];
                out0[i * 1024 + j] = sum[lane];
            }
        }
    }
}
GA_CALLED int call_k0_scan(ga_array* in0, ga_array* out0) {
    if (const int why = ga_refused(in0, out0)) return why;
    ga_tasks(1024, 4, k0_scan, in0, out0);
    return 0;
}
