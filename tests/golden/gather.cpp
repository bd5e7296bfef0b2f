// k0_map: lt, add x2, select_n, gather, mul
//   in0 bf16[32000,512], in1 i32[4096], in2 bf16[512], in3 bf16[512] -> out0 bf16[4096,512]    36980736 bytes
//   4096 x 512 elements, tasks of 16384
GA_TASKS k0_map(
    ga_index first, ga_index last,
    const ga_bf16* GA_ALONE in0,
    const int* GA_ALONE in1,
    const ga_bf16* GA_ALONE in2,
    const ga_bf16* GA_ALONE in3,
    ga_bf16* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        const int t0 = in1[i0];
        const int at1 = ga_clip((t0 < 0) ? ga_add(t0, 32000) : t0, 31999);
        for (ga_index i1 = 0; i1 < 512; ++i1) {
            const float x2 = ga_value(in0[at1 * 512 + i1]);
            const float x3 = ga_value(in2[i1]);
            const float v0 = ga_times<ga_bf16>(x2, x3);                   // mul
            const float x4 = ga_value(in3[i1]);
            const float v1 = ga_plus<ga_bf16>(v0, x4);                    // add
            out0[i0 * 512 + i1] = ga_exact<ga_bf16>(v1);
        }
    }
}
GA_CALLED int call_k0_map(ga_array* in0, ga_array* in1, ga_array* in2, ga_array* in3, ga_array* out0) {
    if (const int why = ga_refused(in0, in1, in2, in3, out0)) return why;
    ga_tasks(4096, 32, k0_map, in0, in1, in2, in3, out0);
    return 0;
}
