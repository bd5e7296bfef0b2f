// k0_map: broadcast_in_dim
//   no inputs -> out0 c64[1024,1024]    8388608 bytes
//   1048576 elements, tasks of 16384
GA_TASKS k0_map(ga_index first, ga_index last, ga_c64* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        out0[i0] = ga_c64{0.0f, 0.0f};
    }
}
GA_CALLED int call_k0_map(ga_array* out0) {
    if (const int why = ga_refused(out0)) return why;
    ga_tasks(1048576, 16384, k0_map, out0);
    return 0;
}

// k1_map: broadcast_in_dim
//   no inputs -> out0 i32[1024,1024]    4194304 bytes
//   1048576 elements, tasks of 16384
GA_TASKS k1_map(ga_index first, ga_index last, int* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        out0[i0] = 0;
    }
}
GA_CALLED int call_k1_map(ga_array* out0) {
    if (const int why = ga_refused(out0)) return why;
    ga_tasks(1048576, 16384, k1_map, out0);
    return 0;
}

// routine2_k0_map: add
//   in0 i32[] -> out0 i32[]    8 bytes
//   1 element
GA_FEW routine2_k0_map(ga_index first, ga_index last, const int* GA_ALONE in0, int* GA_ALONE out0) {
    if (first == last) return;
    const int x0 = in0[0];
    out0[0] = ga_add(x0, 1);
}

// routine2_k1_map: mul, add x3, real, square x2, imag, lt, convert_element_type
//   in0 c64[1024,1024], in1 c64[1024,1024], in2 i32[1024,1024] -> out0 c64[1024,1024], out1 i32[1024,1024]    33554432 bytes
//   1048576 elements, tasks of 16384
GA_TASKS routine2_k1_map(
    ga_index first, ga_index last,
    const ga_c64* GA_ALONE in0,
    const ga_c64* GA_ALONE in1,
    const int* GA_ALONE in2,
    ga_c64* GA_ALONE out0,
    int* GA_ALONE out1) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        const ga_c64 x0 = in0[i0];
        const ga_c64 v0 = x0 * x0;                                        // mul
        const ga_c64 x1 = in1[i0];
        const ga_c64 v1 = v0 + x1;                                        // add
        const float v2 = x0.re;                                           // real
        const float v3 = v2 * v2;                                         // square
        const float v4 = x0.im;                                           // imag
        const float v5 = v4 * v4;                                         // square
        const float v6 = v3 + v5;                                         // add
        const bool v7 = v6 < 4.0f;                                        // lt
        const int v8 = (int)v7;                                           // convert_element_type
        const int x2 = in2[i0];
        const int v9 = ga_add(x2, v8);
        out0[i0] = v1;
        out1[i0] = v9;
    }
}

static int routine2_steps(
    ga_call& call,
    const ga_c64* in0,
    const ga_c64* in1,
    const int* in2,
    int* out0,
    ga_c64* out1,
    int* out2) {
    const int lit1[1] = {0};
    for (ga_index begin = 0; begin < 2048; begin += 204) {
        ga_blocks(begin, ga_least(begin + 204, 2048), 1048576, 512, 1, [&](ga_index first, ga_index last) {
            GA_LOCAL int b2[1];
            ga_copy<1>(b2, lit1);
            GA_LOCAL ga_c64 of_b3[512];
            ga_c64* const b3 = of_b3 - first;
            ga_copy_block(b3, in1, first, last);
            GA_LOCAL int of_b4[512];
            int* const b4 = of_b4 - first;
            ga_copy_block(b4, in2, first, last);
            for (ga_index t5 = 0; t5 < 256; ++t5) {  // scan
                GA_LOCAL int b6[1];
                GA_LOCAL ga_c64 of_b7[512];
                ga_c64* const b7 = of_b7 - first;
                GA_LOCAL int of_b8[512];
                int* const b8 = of_b8 - first;
                routine2_k0_map(0, 1, b2, b6);
                routine2_k1_map(first, last, b3, in0, b4, b7, b8);
                ga_copy<1>(b2, b6);
                ga_copy_block(b3, b7, first, last);
                ga_copy_block(b4, b8, first, last);
            }
            if (first == 0)
                ga_copy<1>(out0, b2);
            ga_copy_block(out1, b3, first, last);
            ga_copy_block(out2, b4, first, last);
        });
        if (call.turn(268435456)) return 3;
    }
    return 0;
}
GA_CALLED int call_routine2(ga_array* in0, ga_array* in1, ga_array* in2, ga_array* out0, ga_array* out1, ga_array* out2) {
    if (const int why = ga_refused(in0, in1, in2, out0, out1, out2)) return why;
    ga_call call;
    return routine2_steps(call, (const ga_c64*)in0->data, (const ga_c64*)in1->data, (const int*)in2->data, (int*)out0->data, (ga_c64*)out1->data, (int*)out2->data);
}
