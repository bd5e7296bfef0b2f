// k0_map: pad, add x3, mul, sub
//   in0 f32[1024,1024] -> out0 f32[1024,1024]    8388608 bytes
//   1024 x 1024 elements, tasks of 16384
GA_TASKS k0_map(ga_index first, ga_index last, const float* GA_ALONE in0, float* GA_ALONE out0) {
    const auto at_i0 = [&](ga_index i0) GA_STEP {
        const auto at_i1 = [&](ga_index i1) GA_STEP {
            const float x0 = i0 - 1 < 1024 ? in0[i0 * 1024 + i1 - 1024] : 0.0f;
            const float x1 = i0 + 1 < 1024 ? in0[i0 * 1024 + i1 + 1024] : 0.0f;
            const float v0 = x0 + x1;                                     // add
            const float x2 = i1 - 1 < 1024 ? in0[i0 * 1024 + i1 - 1] : 0.0f;
            const float v1 = v0 + x2;                                     // add
            const float x3 = i1 + 1 < 1024 ? in0[i0 * 1024 + i1 + 1] : 0.0f;
            const float v2 = v1 + x3;                                     // add
            const float v3 = 0.25f * v2;                                  // mul
            const float x4 = in0[i0 * 1024 + i1];
            out0[i0 * 1024 + i1] = v3 - x4;                               // sub
        };
        at_i1(0);
        for (ga_index i1 = 1; i1 < 1023; ++i1) at_i1(i1);
        at_i1(1023);
    };
    for (ga_index i0 = first; i0 < ga_least(last, 1); ++i0) at_i0(i0);
    for (ga_index i0 = ga_most(first, 1); i0 < ga_least(last, 1023); ++i0) at_i0(i0);
    for (ga_index i0 = ga_most(first, 1023); i0 < last; ++i0) at_i0(i0);
}
GA_CALLED int call_k0_map(ga_array* in0, ga_array* out0) {
    if (const int why = ga_refused(in0, out0)) return why;
    ga_tasks(1024, 16, k0_map, in0, out0);
    return 0;
}
