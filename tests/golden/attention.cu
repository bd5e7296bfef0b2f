// k0_sweep: sweep
//   in0 bf16[4,4096,16,64], in1 bf16[4,4096,16,64], in2 bf16[4,4096,16,64] -> out0 bf16[4,4096,16,1,64]    134217728 bytes
//   4 x 16 x 4096 x 1 x 4096 sums of 64 products: mul, rescaled weights, times 64 features
//   128 rows a block, 64 columns a turn; 2048 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_sweep(
    const ga_bf16* __restrict__ in0,
    const ga_bf16* __restrict__ in1,
    const ga_bf16* __restrict__ in2,
    ga_bf16* __restrict__ out0) {
    __shared__ ga_vec<ga_bf16, 8> mine0[128][9];
    __shared__ ga_vec<ga_bf16, 8> theirs0[64][9];
    __shared__ ga_vec<ga_bf16, 8> v[64][9];
    const unsigned lane = threadIdx.x % 32u, mine = threadIdx.x / 32u * 16u;
    const unsigned x = lane % 4u * 2u, y = mine + lane / 4u;
    const unsigned own0 = blockIdx.x % 32u * 128u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
        const unsigned f = i % 8u * 8u, at = own0 + i / 8u;
        mine0[i / 8u][i % 8u] = ga_load<8>(in0 + b0 * 4194304u + at * 1024u + b1 * 64u + f);
    }
    ga_vec<ga_bf16, 8> theirs0_next[2];
    const auto read_theirs0 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            const unsigned f = i % 8u * 8u, at = at0 + i / 8u;
            theirs0_next[u] = ga_load<8>(in1 + b0 * 4194304u + at * 1024u + b1 * 64u + f);
        }
    };
    ga_vec<ga_bf16, 8> v_next[2];
    const auto read_v = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            const unsigned f = i % 8u * 8u, at = at0 + i / 8u;
            v_next[u] = ga_load<8>(in2 + b0 * 4194304u + at * 1024u + b1 * 64u + f);
        }
    };
    read_theirs0(0), read_v(0);
    float sum[2][16] = {};
    float most[2], total[2];
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) most[i] = -GA_INFF, total[i] = 0.0f;
    for (unsigned at0 = 0; at0 < 4096u; at0 += 64u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            theirs0[i / 8u][i % 8u] = theirs0_next[u];
        }
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            v[i / 8u][i % 8u] = v_next[u];
        }
        __syncthreads();
        if (at0 + 64u < 4096u) read_theirs0(at0 + 64u), read_v(at0 + 64u);  // the next tiles
        float s0[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 16 features
            const ga_fragment a = ga_read_fragment(&mine0[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs0[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<ga_bf16>(&s0[0][j], &s0[1][j], a, b.w[0], b.w[1]);
                ga_add_product<ga_bf16>(&s0[0][j + 2u], &s0[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 2u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) {
                s0[i][j] = s0[i][j] * 0.125f;                             // mul
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 2u; ++i) {                               // the largest so far
            float high = most[i];
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) high = ga_max(high, s0[i][j]);
            high = ga_warp_reduce<4>(high, [](float p, float q) -> float { return ga_max(p, q); });
            const float from = high == -GA_INFF ? 0.0f : high;
            const float shrink = ga_coarse_exp(most[i] - from);
            most[i] = high;
            total[i] = total[i] * shrink;
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) {
                const float weight = ga_coarse_exp(s0[i][j] - from);
                total[i] = total[i] + weight;
                s0[i][j] = weight;
            }
            #pragma unroll
            for (unsigned c = 0; c < 16u; ++c) sum[i][c] = sum[i][c] * shrink;
        }
        #pragma unroll
        for (unsigned j = 0; j < 16u; j += 4u) {                          // 16 of the tile
            const ga_fragment a = ga_as_fragment<ga_bf16>(&s0[0][j], &s0[1][j]);
            #pragma unroll
            for (unsigned c = 0; c < 16u; c += 4u) {
                const ga_fragment b = ga_read_turned(&v[j * 4u + lane % 16u][c / 2u + lane / 16u]);
                ga_add_product<ga_bf16>(&sum[0][c], &sum[1][c], a, b.w[0], b.w[1]);
                ga_add_product<ga_bf16>(&sum[0][c + 2u], &sum[1][c + 2u], a, b.w[2], b.w[3]);
            }
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) {
        const float whole = ga_warp_reduce<4>(total[i], [](float p, float q) -> float { return p + q; });
        const unsigned own = own0 + y + i * 8u;
        #pragma unroll
        for (unsigned c = 0; c < 16u; ++c) {
            const unsigned f = x + c / 2u * 8u + c % 2u;
            out0[b0 * 4194304u + own * 1024u + b1 * 64u + f] = ga_bf16(sum[i][c] / whole);
        }
    }
}
