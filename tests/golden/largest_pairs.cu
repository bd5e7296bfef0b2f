// k0_rows: reduce, gt, eq, lt, and, or, select_n x2
//   in0 f32[1024,4096], in1 i32[1024,4096] -> out0 f32[1024], out1 i32[1024]    33562624 bytes
//   1024 rows of 4096, 256 threads a row; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_rows(
    const float* __restrict__ in0,
    const int* __restrict__ in1,
    float* __restrict__ out0,
    int* __restrict__ out1) {
    struct state { float s0; int s1; bool some; };
    __shared__ state part0[8];
    const auto merge = [](state p, state q) -> state {
        if (!p.some || !q.some) return p.some ? p : q;
        const bool m0 = p.s0 > q.s0;
        const bool m1 = p.s0 == q.s0;
        const bool m2 = p.s1 < q.s1;
        const bool m3 = m1 & m2;
        const bool m4 = m0 | m3;
        const float m5 = m4 ? p.s0 : q.s0;
        const int m6 = m4 ? p.s1 : q.s1;
        return {m5, m6, true};
    };
    const unsigned lane = threadIdx.x;
    const unsigned row = blockIdx.x;
    state r0 = state{};                                                   // reduce
    #pragma unroll
    for (unsigned u = 0; u < 4u; ++u) {                                   // pass 1 over the row
        const unsigned j = (u * 256u + lane) * 4u;
        const ga_vec<float, 4> x0 = ga_load<4>(in0 + row * 4096u + j);
        const ga_vec<int, 4> x1 = ga_load<4>(in1 + row * 4096u + j);
        #pragma unroll
        for (unsigned e = 0; e < 4u; ++e) {
            r0 = merge(r0, state{x0.v[e], x1.v[e], true});
        }
    }
    r0 = ga_block_reduce<8>(r0, part0, merge);
    const float v1 = r0.s0;
    const int v2 = r0.s1;
    const bool v3 = -GA_INFF > v1;                                        // gt
    const bool v4 = -GA_INFF == v1;                                       // eq
    const bool v5 = 2147483647 < v2;                                      // lt
    const bool v6 = v4 & v5;                                              // and
    const bool v7 = v3 | v6;                                              // or
    const float v8 = v7 ? -GA_INFF : v1;                                  // select_n
    const int v9 = v7 ? 2147483647 : v2;                                  // select_n
    if (lane == 0) {
        out0[row] = v8;
        out1[row] = v9;
    }
}
