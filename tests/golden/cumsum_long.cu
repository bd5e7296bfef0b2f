// k0_scan: scan_totals
//   in0 f32[4194304] -> out0 f32[1,256,1]    16778240 bytes
//   scan of 1 rows of 4194304, 256 pieces each, 256 threads a row; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_scan(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float part[8];
    const unsigned lane = threadIdx.x;
    const unsigned piece = blockIdx.x;
    const unsigned begin = piece * 16384u;
    const unsigned end = begin + 16384u;
    const auto merge = [](float p, float q) -> float { return p + q; };
    float sum = -0.0f;
    #pragma unroll 8
    for (unsigned j = begin + lane; j < end; j += 256u) {
        sum = sum + in0[j];
    }
    sum = ga_block_reduce<8>(sum, part, merge);
    if (lane == 0) out0[piece] = sum;
}

// k1_scan: scan_from
//   in0 f32[4194304], in1 f32[1,256,1] -> out0 f32[4194304]    33555452 bytes
//   scan of 1 rows of 4194304, 256 pieces each, 256 threads a row; 256 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k1_scan(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    __shared__ float part[8];
    const unsigned lane = threadIdx.x;
    const unsigned piece = blockIdx.x;
    const unsigned begin = piece * 16384u;
    const unsigned end = begin + 16384u;
    const auto merge = [](float p, float q) -> float { return p + q; };
    float before = lane < piece ? in1[lane] : -0.0f;
    before = ga_block_reduce<8>(before, part, merge);
    for (unsigned tile = begin; tile < end; tile += 1024u) {
        const unsigned j = tile + lane * 4u;
        float run[4], sum = -0.0f;
        if (j < end) {
            const ga_vec<float, 4> x = ga_load<4>(in0 + j);
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                run[e] = sum = sum + x.v[e];
            }
        }
        float whole;
        float ahead = ga_block_scan<8>(sum, part, -0.0f, whole, merge);   // of this thread's
        ahead = before + ahead;
        if (j < end) {
            ga_vec<float, 4> y;
            #pragma unroll
            for (unsigned e = 0; e < 4u; ++e) {
                y.v[e] = ahead + run[e];
            }
            ga_store(out0 + j, y);
        }
        before = before + whole;
    }
}
