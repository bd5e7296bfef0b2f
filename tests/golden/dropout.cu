// k0_map: random_bits, shift_right_logical, or, bitcast_convert_type, sub, add, max, lt, mul, select_n
//   in0 key<fry>[], in1 f32[1024,1024] -> out0 f32[1024,1024]    8388616 bytes
//   1048576 elements, 2 x 4 a thread; 512 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const unsigned long long* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned j = (blockIdx.x * 256u + threadIdx.x) * 4u;
    ga_vec<float, 4> ahead0[2];
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // read
        const unsigned i = j + u * 524288u;
        ahead0[u] = ga_load<4>(in1 + i);
    }
    #pragma unroll
    for (unsigned u = 0; u < 2u; ++u) {                                   // compute
        const unsigned i = j + u * 524288u;
        ga_vec<float, 4> y0;
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            const unsigned x1 = ga_random_half_bits<unsigned, 1048576>(in0[0u], (i + e), u);
            const unsigned v0 = ga_shift_right_logical(x1, 9u);
            const unsigned v1 = v0 | 1065353216u;                         // or
            const float v2 = __uint_as_float(ga_word(v1));                // bitcast_convert_type
            const float v3 = v2 - 1.0f;                                   // sub
            const float v4 = v3 + 0.0f;                                   // add
            const float v5 = ga_max(0.0f, v4);
            const bool v6 = v5 < 0.5f;                                    // lt
            const float v7 = 2.0f * ahead0[u].v[e];                       // mul
            y0.v[e] = v6 ? v7 : 0.0f;                                     // select_n
        }
        ga_store(out0 + i, y0);
    }
}
