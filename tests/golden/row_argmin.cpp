// k0_rows: argmin
//   in0 f16[1000,77] -> out0 i32[1000]    158000 bytes
//   1000 rows of 77, 32 lanes
GA_TASKS k0_rows(ga_index first, ga_index last, const ga_f16* GA_ALONE in0, int* GA_ALONE out0) {
    for (ga_index row = first; row < last; ++row) {
        ga_parts<ga_arg<float>, 32> r0(ga_arg<float>{GA_INFF, ~0ull});    // argmin
        ga_short_lanes<32>(0, 77, [&](ga_index i1, ga_index lane) GA_STEP {  // pass 1 over the row
            const float x0 = ga_value(in0[row * 77 + i1]);
            r0[lane] = ga_argmin(r0[lane], ga_arg<float>{x0, i1});
        });
        const ga_arg<float> r1 = ga_merged(r0, [](auto p, auto q) { return ga_argmin(p, q); });
        out0[row] = r1.at;
    }
}
GA_CALLED int call_k0_rows(ga_array* in0, ga_array* out0) {
    if (const int why = ga_refused(in0, out0)) return why;
    ga_tasks(1000, 200, k0_rows, in0, out0);
    return 0;
}
