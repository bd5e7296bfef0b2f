// routine0_k1_map: add, tanh
//   in0 f32[3,24], in1 f32[3,24] -> out0 f32[3,24]    864 bytes
//   72 elements, tasks of 16384
GA_FEW routine0_k1_map(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    const float* GA_ALONE in1,
    float* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        const float x0 = in0[i0];
        const float x1 = in1[i0];
        const float v0 = x0 + x1;                                         // add
        out0[i0] = ga_tanh(v0);
    }
}

// routine0_k2_map: slice
//   in0 f32[3,24] -> out0 f32[3,1]    300 bytes
//   3 elements, tasks of 16384
GA_FEW routine0_k2_map(
    ga_index first, ga_index last,
    const float* GA_ALONE in0,
    float* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        out0[i0] = in0[i0 * 24];
    }
}

static int routine0_steps(
    ga_call& call,
    const float* in0,
    const float* in1,
    const float* in2,
    float* out0,
    float* out1) {
    GA_LOCAL float c2[72];
    ga_copy<72>(c2, in1);
    for (ga_index t1 = 0; t1 < 50; ++t1) {  // scan
        if (call.turn(2683)) return 3;
        GA_LOCAL float b3[72];
        GA_LOCAL float b4[72];
        ga_matmul<float, 3, 3, 24, 24, 24, 1, 1, 24, 24>(0, 1, c2, in0, b4);
        routine0_k1_map(0, 72, b4, (in2 + t1 * 72), b3);
        routine0_k2_map(0, 3, c2, (out1 + t1 * 3));
        ga_copy<72>(c2, b3);
    }
    ga_copy<72>(out0, c2);
    return 0;
}
GA_CALLED int call_routine0(ga_array* in0, ga_array* in1, ga_array* in2, ga_array* out0, ga_array* out1) {
    if (const int why = ga_refused(in0, in1, in2, out0, out1)) return why;
    ga_call call;
    return routine0_steps(call, (const float*)in0->data, (const float*)in1->data, (const float*)in2->data, (float*)out0->data, (float*)out1->data);
}
