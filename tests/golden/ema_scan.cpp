// routine0_k0_map: mul x2, add
//   in0 bf16[8192], in1 bf16[8192] -> out0 bf16[8192]    49152 bytes
//   8192 elements, tasks of 16384
GA_TASKS routine0_k0_map(
    ga_index first, ga_index last,
    const ga_bf16* GA_ALONE in0,
    const ga_bf16* GA_ALONE in1,
    ga_bf16* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        const float x0 = ga_value(in0[i0]);
        const float v0 = ga_times<ga_bf16>(0.8984375f, x0);               // mul
        const float x1 = ga_value(in1[i0]);
        const float v1 = ga_times<ga_bf16>(0.100097656f, x1);             // mul
        const float v2 = ga_plus<ga_bf16>(v0, v1);                        // add
        out0[i0] = ga_exact<ga_bf16>(v2);
    }
}

static int routine0_steps(
    ga_call& call,
    const ga_bf16* in0,
    const ga_bf16* in1,
    ga_bf16* out0,
    ga_bf16* out1) {
    ga_blocks(0, 16, 8192, 512, 1, [&](ga_index first, ga_index last) {
        GA_LOCAL ga_bf16 of_b1[512];
        ga_bf16* const b1 = of_b1 - first;
        ga_copy_block(b1, in0, first, last);
        for (ga_index t2 = 0; t2 < 512; ++t2) {  // scan
            GA_LOCAL ga_bf16 of_b3[512];
            ga_bf16* const b3 = of_b3 - first;
            routine0_k0_map(first, last, b1, (in1 + t2 * 8192), b3);
            ga_copy_block((out1 + t2 * 8192), b3, first, last);
            ga_copy_block(b1, b3, first, last);
        }
        ga_copy_block(out0, b1, first, last);
    });
    return 0;
}
GA_CALLED int call_routine0(ga_array* in0, ga_array* in1, ga_array* out0, ga_array* out1) {
    if (const int why = ga_refused(in0, in1, out0, out1)) return why;
    ga_call call;
    return routine0_steps(call, (const ga_bf16*)in0->data, (const ga_bf16*)in1->data, (ga_bf16*)out0->data, (ga_bf16*)out1->data);
}
