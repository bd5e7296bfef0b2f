// k0_map: exp, mul
//   in0 c64[4096] -> out0 c64[4096]    65536 bytes
//   4096 elements, 2 a thread; 8 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_map(
    const ga_c64* __restrict__ in0,
    ga_c64* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 2u;
    const ga_vec<ga_c64, 2> x0 = ga_load<2>(in0 + i);
    ga_vec<ga_c64, 2> y0;
    #pragma unroll
    for (unsigned e = 0; e < 2u; ++e) {
        const ga_c64 v0 = ga_cexp(x0.v[e]);
        y0.v[e] = v0 * x0.v[e];                                           // mul
    }
    ga_store(out0 + i, y0);
}
