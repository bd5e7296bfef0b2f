// k0_rows: convert_element_type, mul x2, reduce_sum
//   in0 i8[4096,4096], in1 f32[4096], in2 f32[4096] -> out0 f32[4096]    16826368 bytes
//   4096 rows of 4096, 256 threads a row; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_rows(
    const signed char* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    float* __restrict__ out0) {
    __shared__ float part0[8];
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    float r0 = 0.0f;                                                      // reduce_sum
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 1 over the row
        const unsigned j = (u * 256u + lane) * 4u;
        const ga_vec<signed char, 4> x0 = ga_load<4>(in0 + row * 4096u + j);
        const ga_vec<float, 4> x1 = ga_load<4>(in1 + j);
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const float v1 = (float)x0.v[e];                              // convert_element_type
            const float v2 = v1 * x1.v[e];                                // mul
            r0 = r0 + v2;
        }
    }
    r0 = ga_block_reduce<8>(r0, part0, [](float p, float q) -> float { return p + q; });
    const float x0 = in2[row];
    const float v3 = r0 * x0;                                             // mul
    if (lane == 0) {
        out0[row] = v3;
    }
}
