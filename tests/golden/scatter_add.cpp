// k0_scatter: lt, add, select_n, scatter-add
//   in0 f32[4096,64], in1 i32[4096] -> out0 f32[5000,64]    2344960 bytes
//   262144 updates in their order; the output begins as the operand; tasks of 32 columns
GA_TASKS k0_scatter(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    const int* GA_ALONE in1,
    float* GA_ALONE out0) {
    for (ga_index task = first; task < last; ++task) {
        for (ga_index i0 = 0; i0 < 4096; ++i0) {
            const int t0 = in1[i0];
            const ga_index at1 = ga_find((t0 < 0) ? ga_add(t0, 5000) : t0, 4999);
            if (at1 >= 5000) continue;
            for (ga_index i1 = task * 32; i1 < task * 32 + 32; ++i1) {
                const float old = out0[at1 * 64 + i1];
                const float update = in0[i0 * 64 + i1];
                out0[at1 * 64 + i1] = old + update;
            }
        }
    }
}
GA_TASKS k0_scatter_copy(ga_index first, ga_index last, const float* from, float* to) {
    if (to == from) return;  // it is the operand's memory
    for (ga_index i = first; i < last; ++i) to[i] = from[i];
}
GA_CALLED int call_k0_scatter(ga_array* in0, ga_array* in1, ga_array* in2, ga_array* out0) {
    if (const int why = ga_refused(in0, in1, in2, out0)) return why;
    ga_tasks(320000, 16384, k0_scatter_copy, in2, out0);
    ga_tasks(2, 1, k0_scatter, in0, in1, out0);
    return 0;
}
