// k0_sweep: sweep
//   in0 bf16[4,4096,16,64], in1 bf16[4,4096,16,64], in2 bf16[4,4096,16,64] -> out0 bf16[4,4096,16,1,64]    134217728 bytes
//   4 x 16 x 4096 x 1 x 4096 sums of 64 products: mul, rescaled weights, times 64 features
//   64 rows a block, 32 columns a turn; 4096 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_sweep(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    const ga_bf16* __restrict__ in2,
    ga_bf16* __restrict__ out0) {
    __shared__ float mine0[64][65];
    __shared__ float theirs0[64][33];
    __shared__ float w[32][65];
    __shared__ float v[32][64];
    const unsigned x = threadIdx.x % 16u, y = threadIdx.x / 16u;
    const unsigned own0 = blockIdx.x % 64u * 64u;
    const unsigned batch = blockIdx.x / 64u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 4096u; i += 256u) {
        const unsigned f = i % 64u, at = own0 + i / 64u;
        mine0[f][i / 64u] = ga_value(in0[b0 * 4194304u + at * 1024u + b1 * 64u + f]);
    }
    float sum[4][4] = {};
    float most[4], total[4];
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) most[i] = -GA_INFF, total[i] = 0.0f;
    for (unsigned at0 = 0; at0 < 4096u; at0 += 32u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
            const unsigned f = i % 64u, at = at0 + i / 64u;
            theirs0[f][i / 64u] = ga_value(in1[b0 * 4194304u + at * 1024u + b1 * 64u + f]);
        }
        for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
            const unsigned f = i % 64u, at = at0 + i / 64u;
            v[i / 64u][f] = ga_value(in2[b0 * 4194304u + at * 1024u + b1 * 64u + f]);
        }
        __syncthreads();
        float s0[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 64u; ++f) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned j = 0; j < 2u; ++j)
                    s0[i][j] = fmaf(mine0[f][y * 4u + i], theirs0[f][x * 2u + j], s0[i][j]);
        }
        #pragma unroll
        for (unsigned i = 0; i < 4u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 2u; ++j) {
                s0[i][j] = s0[i][j] * 0.125f;                             // mul
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 4u; ++i) {                               // the largest so far
            float high = most[i];
            #pragma unroll
            for (unsigned j = 0; j < 2u; ++j) high = ga_max(high, s0[i][j]);
            high = ga_warp_reduce<16>(high, [](float p, float q) -> float { return ga_max(p, q); });
            const float from = high == -GA_INFF ? 0.0f : high;
            const float shrink = ga_exp(most[i] - from);
            most[i] = high;
            total[i] = total[i] * shrink;
            #pragma unroll
            for (unsigned j = 0; j < 2u; ++j) {
                const float weight = ga_exp(s0[i][j] - from);
                total[i] = total[i] + weight;
                w[x * 2u + j][y * 4u + i] = weight;
            }
            #pragma unroll
            for (unsigned c = 0; c < 4u; ++c) sum[i][c] = sum[i][c] * shrink;
        }
        __syncwarp();
        #pragma unroll 8
        for (unsigned k = 0; k < 32u; ++k) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned c = 0; c < 4u; ++c)
                    sum[i][c] = fmaf(w[k][y * 4u + i], v[k][x + c * 16u], sum[i][c]);
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) {
        const float whole = ga_warp_reduce<16>(total[i], [](float p, float q) -> float { return p + q; });
        const unsigned own = own0 + y * 4u + i;
        #pragma unroll
        for (unsigned c = 0; c < 4u; ++c) {
            const unsigned f = x + c * 16u;
            out0[b0 * 4194304u + own * 1024u + b1 * 64u + f] = ga_bf16(sum[i][c] / whole);
        }
    }
}
