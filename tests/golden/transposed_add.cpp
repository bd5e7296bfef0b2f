// k0_tiles: add, mul
//   in0 f32[512,512], in1 f32[512,512] -> out0 f32[512,512]    3145728 bytes
//   512 x 512 elements, tiles of 32 x 256
GA_TASKS k0_tiles(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    const float* GA_ALONE in1,
    float* GA_ALONE out0) {
    for (ga_index task = first; task < last; ++task) {
        const ga_index top = task / 2 * 32;
        const ga_index height = 32;
        const ga_index left = task % 2 * 256;
        const ga_index width = 256;
        GA_LOCAL float turned0[32][256];
        ga_turn(*turned0, 256, in0 + left * 512 + top, 512, height, width);  // in0
        for (ga_index i0 = top; i0 < top + height; ++i0) {
            for (ga_index i1 = left; i1 < left + width; ++i1) {
                const float x0 = turned0[i0 - top][i1 - left];
                const float x1 = in1[i0 * 512 + i1];
                const float v0 = x0 + x1;                                 // add
                out0[i0 * 512 + i1] = v0 * 3.0f;                          // mul
            }
        }
    }
}
GA_CALLED int call_k0_tiles(ga_array* in0, ga_array* in1, ga_array* out0) {
    if (const int why = ga_refused(in0, in1, out0)) return why;
    ga_tasks(32, 2, k0_tiles, in0, in1, out0);
    return 0;
}
