// k0_map: mul, add
//   in0 f32[1048576], in1 f32[1048576] -> out0 f32[1048576]    12582912 bytes
//   1048576 elements, tasks of 16384
GA_TASKS k0_map(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    const float* GA_ALONE in1,
    float* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        const float x0 = in0[i0];
        const float v0 = 2.0f * x0;                                       // mul
        const float x1 = in1[i0];
        out0[i0] = v0 + x1;                                               // add
    }
}
GA_CALLED int call_k0_map(ga_array* in0, ga_array* in1, ga_array* out0) {
    if (const int why = ga_refused(in0, in1, out0)) return why;
    ga_tasks(1048576, 16384, k0_map, in0, in1, out0);
    return 0;
}
