// k0_map: add x3, integer_pow, mul x4, tanh
//   in0 bf16[8192,4096], in1 bf16[4096] -> out0 bf16[8192,4096]    134225920 bytes
//   8192 x 4096 elements, tasks of 16384
GA_TASKS k0_map(
    ga_index first, ga_index last,
    const ga_bf16* GA_ALONE in0,
    const ga_bf16* GA_ALONE in1,
    ga_bf16* GA_ALONE out0) {
    for (ga_index i0 = first; i0 < last; ++i0) {
        for (ga_index block = 0; block < 4096; block += 1024) {
            const ga_index over = block + 1024;
            GA_LOCAL ga_bf16 near0[1024];
            for (ga_index i1 = block; i1 < over; ++i1) {
                const float x0 = ga_value(in0[i0 * 4096 + i1]);
                const float x1 = ga_value(in1[i1]);
                const float v0 = ga_plus<ga_bf16>(x0, x1);                // add
                const float v1 = ga_round<ga_bf16>(v0 * v0 * v0);         // integer_pow
                const float v2 = ga_times<ga_bf16>(0.044677734f, v1);     // mul
                const float v3 = ga_plus<ga_bf16>(v0, v2);                // add
                const float v4 = ga_times<ga_bf16>(0.796875f, v3);        // mul
                const float v5 = ga_round<ga_bf16>(ga_tanh(v4));
                const float v6 = ga_plus<ga_bf16>(1.0f, v5);              // add
                const float v7 = ga_times<ga_bf16>(0.5f, v6);             // mul
                const float v8 = ga_times<ga_bf16>(v0, v7);               // mul
                near0[i1 - block] = ga_exact<ga_bf16>(v8);
            }
            ga_stream(out0 + i0 * 4096 + block, near0, over - block);     // past the cache
        }
    }
    ga_streamed();
}
GA_CALLED int call_k0_map(ga_array* in0, ga_array* in1, ga_array* out0) {
    if (const int why = ga_refused(in0, in1, out0)) return why;
    ga_tasks(8192, 4, k0_map, in0, in1, out0);
    return 0;
}
