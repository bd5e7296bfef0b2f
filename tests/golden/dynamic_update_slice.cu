// k0_scatter: lt, add, select_n, dynamic_update_slice
//   in0 bf16[8,1,64], in1 i32[] -> out0 bf16[8,4096,64]    2052 bytes
//   512 updates in place; the output begins as the operand; 2 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_scatter(
    const ga_bf16* __restrict__ in0,
    const int* __restrict__ in1,
    ga_bf16* __restrict__ out0) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= 512u) return;
    const unsigned i0 = i / 64u;
    const unsigned i2 = i % 64u;
    const int t0 = in1[0u];
    const int t1 = (t0 < 0) ? ga_add(t0, 4096) : t0;                      // select_n
    const unsigned at2 = ga_clip(t1, 4095u);
    out0[i0 * 262144u + at2 * 64u + i2] = in0[i];
}
