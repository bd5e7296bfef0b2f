// k0_map: abs x2, gt, select_n x10, eq x2, div x3, mul x3, sub x3, le x2
//   in0 f32[10000,2,2], in1 f32[10000,2,1] -> out0 f32[10000,2]    320000 bytes
//   10000 elements; 40 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= 10000u) return;
    const ga_vec<float, 4> x0 = ga_load<4>(in0 + i * 4u);
    const ga_vec<float, 2> x4 = ga_load<2>(in1 + i * 2u);
    const float v0 = ga_abs(x0.v[0]);
    const float v1 = ga_abs(x0.v[2]);
    const bool v2 = v1 > v0;                                              // gt
    const int v3 = v2 ? 1 : 0;                                            // select_n
    const bool v4 = v3 == 1;                                              // eq
    const float v5 = v4 ? x0.v[2] : x0.v[0];                              // select_n
    const float v6 = v4 ? x0.v[3] : x0.v[1];                              // select_n
    const int v7 = v4 ? 1 : 0;                                            // select_n
    const float v8 = v4 ? x0.v[0] : x0.v[2];                              // select_n
    const float v9 = v4 ? x0.v[1] : x0.v[3];                              // select_n
    const int v10 = v4 ? 0 : 1;                                           // select_n
    const bool v11 = v5 == 0.0f;                                          // eq
    const float v12 = v8 / v5;                                            // div
    const float v13 = v11 ? v8 : v12;                                     // select_n
    const float v14 = v13 * v6;                                           // mul
    const float v15 = v9 - v14;                                           // sub
    const bool v16 = v7 <= 0;                                             // le
    const float v17 = v16 ? x4.v[0] : x4.v[1];                            // select_n
    const bool v18 = v10 <= 0;                                            // le
    const float v19 = v18 ? x4.v[0] : x4.v[1];                            // select_n
    const float v20 = v13 * v17;                                          // mul
    const float v21 = v19 - v20;                                          // sub
    const float v22 = v21 / v15;                                          // div
    const float v23 = v6 * v22;                                           // mul
    const float v24 = v17 - v23;                                          // sub
    const float v25 = v24 / v5;                                           // div
    ga_store(out0 + i * 2u, ga_vector(v25, v22));
}
