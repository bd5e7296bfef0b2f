// k0_map: div, sub, sign x2, ne x2, rem, and, select_n, shift_left, xor
//   in0 i32[4096], in1 i32[4096] -> out0 i32[4096]    49152 bytes
//   4096 elements, 4 a thread; 4 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const int* __restrict__ in0,
    const int* __restrict__ in1,
    int* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const ga_vec<int, 4> x0 = ga_load<4>(in0 + i);
    const ga_vec<int, 4> x1 = ga_load<4>(in1 + i);
    ga_vec<int, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        const int v0 = ga_div(x0.v[e], x1.v[e]);
        const int v1 = ga_sub(v0, 1);
        const int v2 = ga_sign(x0.v[e]);
        const int v3 = ga_sign(x1.v[e]);
        const bool v4 = v2 != v3;                                         // ne
        const int v5 = ga_rem(x0.v[e], x1.v[e]);
        const bool v6 = v5 != 0;                                          // ne
        const bool v7 = v4 & v6;                                          // and
        const int v8 = v7 ? v1 : v0;                                      // select_n
        const int v9 = ga_shift_left(x0.v[e], 3);
        y0.v[e] = v8 ^ v9;                                                // xor
    }
    ga_store(out0 + i, y0);
}
