// k0_loop: scan
//   in0 c64[1024,1024] -> out0 i32[1024,1024]    12582912 bytes
//   1048576 elements; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_loop(
    const ga_c64* __restrict__ in0,
    int* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= 1048576u) return;
    const ga_c64 x0 = in0[i];
    ga_c64 c0 = ga_c64{0.0f, 0.0f};
    int c1 = 0;
    for (unsigned t = 0; t < 256u; ++t) {                                 // scan
        const ga_c64 v0 = c0 * c0;                                        // mul
        const ga_c64 v1 = v0 + x0;                                        // add
        const float v2 = c0.re;                                           // real
        const float v3 = v2 * v2;                                         // square
        const float v4 = c0.im;                                           // imag
        const float v5 = v4 * v4;                                         // square
        const float v6 = v3 + v5;                                         // add
        const bool v7 = v6 < 4.0f;                                        // lt
        const int v8 = (int)v7;                                           // convert_element_type
        const int v9 = ga_add(c1, v8);
        c0 = v1;
        c1 = v9;
    }
    out0[i] = c1;
}
