// k0_map: sin x10, mul x10, add x10
//   in0 f32[1048576] -> out0 f32[1048576]    8388608 bytes
//   1048576 elements, 4 a thread; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const ga_vec<float, 4> x0 = ga_load<4>(in0 + i);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        const float v0 = ga_sin(x0.v[e]);
        const float v1 = v0 * 2.0f;                                       // mul
        const float v2 = v1 + 1.0f;                                       // add
        const float v3 = ga_sin(v2);
        const float v4 = v3 * 2.0f;                                       // mul
        const float v5 = v4 + 1.0f;                                       // add
        const float v6 = ga_sin(v5);
        const float v7 = v6 * 2.0f;                                       // mul
        const float v8 = v7 + 1.0f;                                       // add
        const float v9 = ga_sin(v8);
        const float v10 = v9 * 2.0f;                                      // mul
        const float v11 = v10 + 1.0f;                                     // add
        const float v12 = ga_sin(v11);
        const float v13 = v12 * 2.0f;                                     // mul
        const float v14 = v13 + 1.0f;                                     // add
        const float v15 = ga_sin(v14);
        const float v16 = v15 * 2.0f;                                     // mul
        const float v17 = v16 + 1.0f;                                     // add
        const float v18 = ga_sin(v17);
        const float v19 = v18 * 2.0f;                                     // mul
        const float v20 = v19 + 1.0f;                                     // add
        const float v21 = ga_sin(v20);
        const float v22 = v21 * 2.0f;                                     // mul
        const float v23 = v22 + 1.0f;                                     // add
        const float v24 = ga_sin(v23);
        const float v25 = v24 * 2.0f;                                     // mul
        const float v26 = v25 + 1.0f;                                     // add
        const float v27 = ga_sin(v26);
        const float v28 = v27 * 2.0f;                                     // mul
        y0.v[e] = v28 + 1.0f;                                             // add
    }
    ga_store(out0 + i, y0);
}
