// k0_rows: sub, integer_pow, reduce_sum, div
//   in0 f32[4194304], in1 f32[4194304] -> out0 f32[]    33554436 bytes
//   1 rows of 4194304 in 64 pieces, merged in order
GA_TASKS k0_rows_pieces(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    const float* GA_ALONE in1,
    float* GA_ALONE part0) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index begin = task * 65536, end = begin + 65536;
        ga_parts<float, 64> r0(0.0f);                                     // reduce_sum
        ga_lanes<64>(begin, end, [&](ga_index i0, ga_index lane) GA_STEP {
            const float x0 = in0[i0];
            const float x1 = in1[i0];
            const float v1 = x0 - x1;                                     // sub
            const float v2 = v1 * v1;                                     // integer_pow
            r0[lane] = r0[lane] + v2;
        });
        const float r3 = ga_merged(r0, [](float p, float q) -> float { return p + q; });
        part0[task] = r3;
    }
}
GA_TASKS k0_rows_merge(
    ga_index first, ga_index last,
    const float* GA_ALONE part0,
    float* GA_ALONE out0) {
    for (ga_index row = first; row < last; ++row) {
        float r4 = part0[0];
        for (ga_index p = 1; p < 64; ++p) r4 = r4 + part0[p];
        out0[0] = r4 / 4194304.0f;                                        // div
    }
}
GA_CALLED int call_k0_rows(ga_array* in0, ga_array* in1, ga_array* out0) {
    if (const int why = ga_refused(in0, in1, out0)) return why;
    ga_room<float> part0(64);
    if (!part0) return 2;
    ga_tasks(64, 1, k0_rows_pieces, in0, in1, part0);
    ga_tasks(1, 1, k0_rows_merge, part0, out0);
    return 0;
}
