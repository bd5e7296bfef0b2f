// k0_columns: reduce_sum
//   in0 f32[4096,1024] -> out0 f32[1024]    16781312 bytes
//   1024 columns of 4096 in 32 pieces, merged in order
GA_TASKS k0_columns_pieces(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    float* GA_ALONE part0) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index block = task / 32, piece = task % 32;
        const ga_index left = block * 512;
        const ga_index width = 512;
        const ga_index begin = piece * 128, end = begin + 128;
        ga_parts<float, 512> r0(0.0f);                                    // reduce_sum
        for (ga_index i0 = begin; i0 < end; ++i0) {
            for (ga_index lane = 0; lane < width; ++lane) {
                const ga_index i1 = left + lane;
                const float x0 = in0[i0 * 1024 + i1];
                r0[lane] = r0[lane] + x0;
            }
        }
        for (ga_index lane = 0; lane < width; ++lane) {
            part0[task * 512 + lane] = r0[lane];
        }
    }
}
GA_TASKS k0_columns_merge(
    ga_index first, ga_index last,
    const float* GA_ALONE part0,
    float* GA_ALONE out0) {
    for (ga_index block = first; block < last; ++block) {
        const ga_index left = block * 512;
        const ga_index width = 512;
        ga_parts<float, 512> r1(0.0f);
        for (ga_index p = block * 32; p < (block + 1) * 32; ++p) {
            for (ga_index lane = 0; lane < width; ++lane) r1[lane] = r1[lane] + part0[p * 512 + lane];
        }
        for (ga_index lane = 0; lane < width; ++lane) {
            const ga_index i1 = left + lane;
            out0[i1] = r1[lane];
        }
    }
}
GA_CALLED int call_k0_columns(ga_array* in0, ga_array* out0) {
    if (const int why = ga_refused(in0, out0)) return why;
    ga_room<float> part0(32768);
    if (!part0) return 2;
    ga_tasks(64, 1, k0_columns_pieces, in0, part0);
    ga_tasks(2, 2, k0_columns_merge, part0, out0);
    return 0;
}
