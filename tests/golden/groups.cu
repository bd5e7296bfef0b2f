// k0_tables: scatter_tables x2
//   in0 i32[4194304], in1 f32[4194304] -> out0 f32[132,100], out1 f32[132,100]    33660032 bytes
//   4194304 updates of 100 places, folded in tables of each warp; 132 x 1024 threads
extern "C" __global__ void __launch_bounds__(1024) k0_tables(
    const int* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0,
    float* __restrict__ out1) {
    const auto merge = [](float p, float q) -> float { return p + q; };
    GA_ROOM(room, 25600);                                                 // shared memory of the launch
    const unsigned warps = ga_min(GA_ROOM_BYTES(room) / 800u, 32u);
    const unsigned warp = threadIdx.x / 32u, lane = threadIdx.x % 32u;
    float* const table0 = (float*)room;
    float* const own0 = table0 + warp * 100u;                             // of this warp
    float* const table1 = (float*)(room + warps * 400u);
    float* const own1 = table1 + warp * 100u;                             // of this warp
    for (unsigned p = threadIdx.x; p < warps * 100u; p += 1024u) {
        table0[p] = -0.0f;
        table1[p] = -0.0f;
    }
    __syncthreads();
    const unsigned begin = (blockIdx.x * warps + warp) * 256u;
    for (unsigned first = begin; warp < warps && first < 4194304u; first += warps * 33792u) {
        unsigned place0[8];
        float update0[8];
        float update1[8];
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {
            const unsigned i = first + u * 32u + lane;
            place0[u] = 100u;
            update0[u] = -0.0f;
            update1[u] = -0.0f;
            const int t0 = in0[i];
            const unsigned at1 = ga_find(t0, 99u);
            if (at1 < 100u) {
                place0[u] = at1;
                update0[u] = in1[i];
                update1[u] = 1.0f;
            }
        }
        #pragma unroll
        for (unsigned u = 0; u < 8u; ++u) {
            const unsigned peers0 = ga_peers(place0[u], place0[u] < 100u);
            update0[u] = ga_merge_peers(update0[u], peers0, merge);
            update1[u] = ga_merge_peers(update1[u], peers0, merge);
            if (ga_leads(peers0)) {
                own0[place0[u]] = own0[place0[u]] + update0[u];
                own1[place0[u]] = own1[place0[u]] + update1[u];
            }
            __syncwarp();
        }
    }
    __syncthreads();
    for (unsigned p = threadIdx.x; p < 100u; p += 1024u) {
        float folded0 = table0[p];
        for (unsigned w = 1; w < warps; ++w) folded0 = folded0 + table0[w * 100u + p];
        out0[blockIdx.x * 100u + p] = folded0;
        float folded1 = table1[p];
        for (unsigned w = 1; w < warps; ++w) folded1 = folded1 + table1[w * 100u + p];
        out1[blockIdx.x * 100u + p] = folded1;
    }
}

// k1_columns: reduce_sum x2, add x2, div
//   in0 f32[132,100], in1 f32[132,100] -> out0 f32[100]    106000 bytes
//   100 columns of 132, 8 threads a column; 4 x 256 threads
extern "C" __global__ void __launch_bounds__(256, 1) k1_columns(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    __shared__ float part0[256];
    const auto merge = [](float p, float q) -> float { return p + q; };
    const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;
    const bool inside = blockIdx.x * 32u + lane < 100u;
    const unsigned column = inside ? blockIdx.x * 32u + lane : 0u;
    float r0 = 0.0f;                                                      // reduce_sum
    float r1 = 0.0f;                                                      // reduce_sum
    #pragma unroll 32
    for (unsigned j = deep; j < 132u; j += 8u) {                          // pass 1 down the columns
        const float x0 = in0[j * 100u + column];
        r0 = r0 + x0;
        const float x1 = in1[j * 100u + column];
        r1 = r1 + x1;
    }
    r0 = ga_column_reduce<8, 32>(r0, part0, merge);
    r1 = ga_column_reduce<8, 32>(r1, part0, merge);
    const float x0 = 0.0f;
    const float v2 = x0 + r0;                                             // add
    const float v3 = x0 + r1;                                             // add
    const float v4 = v2 / v3;                                             // div
    if (deep == 0 && inside) {
        out0[column] = v4;
    }
}
