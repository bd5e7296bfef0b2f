// k0_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,2048,16,32] -> out0 f32[2,2048,16,1,32], out1 f32[2,16,2048,1], out2 f32[2,16,2048,1]    34078720 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 products: mul, rescaled weights, times 32 features
//   128 rows a block, 64 columns a turn; 512 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    float* __restrict__ out0,
    float* __restrict__ out1,
    float* __restrict__ out2) {
    __shared__ ga_vec<float, 4> mine0[128][9];
    __shared__ ga_vec<float, 4> theirs0[64][9];
    __shared__ ga_vec<float, 4> v[64][9];
    const unsigned lane = threadIdx.x % 32u, mine = threadIdx.x / 32u * 16u;
    const unsigned x = lane % 4u * 2u, y = mine + lane / 4u;
    const unsigned own0 = blockIdx.x % 16u * 128u;
    const unsigned batch = blockIdx.x / 16u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in0 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine0[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    ga_vec<float, 4> theirs0_next[2];
    const auto read_theirs0 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs0_next[u] = ga_load<4>(in1 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    ga_vec<float, 4> v_next[2];
    const auto read_v = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            v_next[u] = ga_load<4>(in2 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    read_theirs0(0), read_v(0);
    float sum[2][8] = {};
    float most[2], total[2];
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) most[i] = -GA_INFF, total[i] = 0.0f;
    for (unsigned at0 = 0; at0 < 2048u; at0 += 64u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            theirs0[i / 8u][i % 8u] = ga_all_tf32(theirs0_next[u]);
        }
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            v[i / 8u][i % 8u] = ga_all_tf32(v_next[u]);
        }
        __syncthreads();
        if (at0 + 64u < 2048u) read_theirs0(at0 + 64u), read_v(at0 + 64u);  // the next tiles
        float s0[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine0[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs0[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s0[0][j], &s0[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s0[0][j + 2u], &s0[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 2u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) {
                s0[i][j] = s0[i][j] * 0.17677669f;                        // mul
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
            for (unsigned c = 0; c < 8u; ++c) sum[i][c] = sum[i][c] * shrink;
        }
        #pragma unroll
        for (unsigned j = 0; j < 16u; j += 2u) {                          // 8 of the tile
            const ga_fragment a = ga_as_fragment<float>(&s0[0][j], &s0[1][j]);
            #pragma unroll
            for (unsigned c = 0; c < 8u; c += 2u) {
                const unsigned one = __float_as_uint(v[j * 4u + lane % 4u * 2u][c + lane / 16u].v[lane / 4u % 4u]);
                const unsigned two = __float_as_uint(v[j * 4u + lane % 4u * 2u + 1u][c + lane / 16u].v[lane / 4u % 4u]);
                ga_add_product<float>(&sum[0][c], &sum[1][c], a, one, two);
            }
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) {
        const float whole = ga_warp_reduce<4>(total[i], [](float p, float q) -> float { return p + q; });
        const unsigned own = own0 + y + i * 8u;
        #pragma unroll
        for (unsigned c = 0; c < 8u; ++c) {
            const unsigned f = x + c / 2u * 8u + c % 2u;
            out0[b0 * 1048576u + own * 512u + b1 * 32u + f] = sum[i][c] / whole;
        }
        if (x == 0) out1[b0 * 32768u + b1 * 2048u + own] = most[i];
        if (x == 0) out2[b0 * 32768u + b1 * 2048u + own] = whole;
    }
}

// k1_map: integer_pow
//   in0 f32[2,16,2048,1] -> out0 f32[2,16,2048,1,1]    524288 bytes
//   65536 elements, 4 a thread; 64 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k1_map(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const ga_vec<float, 4> x0 = ga_load<4>(in0 + i);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        y0.v[e] = (float)1 / (x0.v[e] * x0.v[e]);                         // integer_pow
    }
    ga_store(out0 + i, y0);
}

// k2_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,2048,16,32], in3 f32[2,2048,16,32], in4 f32[2,16,2048,1], in5 f32[2,16,2048,1,1] -> out0 f32[2,16,2048,1]    34340864 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 and 32 products: mul, sub, exp, mul, mul, reduce_sum
//   64 rows a block, 64 columns a turn; 1024 x 128 threads
extern "C" __global__ void __launch_bounds__(128) k2_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    const float* __restrict__ in5,
    float* __restrict__ out0) {
    __shared__ ga_vec<float, 4> mine0[64][9];
    __shared__ ga_vec<float, 4> mine1[64][9];
    __shared__ ga_vec<float, 4> theirs0[64][9];
    __shared__ ga_vec<float, 4> theirs1[64][9];
    const unsigned lane = threadIdx.x % 32u, mine = threadIdx.x / 32u * 16u;
    const unsigned x = lane % 4u * 2u, y = mine + lane / 4u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 512u; i += 128u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in0 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine0[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    for (unsigned i = threadIdx.x; i < 512u; i += 128u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in2 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine1[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    ga_vec<float, 4> theirs0_next[4];
    const auto read_theirs0 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs0_next[u] = ga_load<4>(in1 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    ga_vec<float, 4> theirs1_next[4];
    const auto read_theirs1 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs1_next[u] = ga_load<4>(in3 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    read_theirs0(0), read_theirs1(0);
    float state[2];
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) state[i] = 0.0f;
    for (unsigned at0 = 0; at0 < 2048u; at0 += 64u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            theirs0[i / 8u][i % 8u] = ga_all_tf32(theirs0_next[u]);
        }
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            theirs1[i / 8u][i % 8u] = ga_all_tf32(theirs1_next[u]);
        }
        __syncthreads();
        if (at0 + 64u < 2048u) read_theirs0(at0 + 64u), read_theirs1(at0 + 64u);  // the next tiles
        float s0[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine0[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs0[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s0[0][j], &s0[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s0[0][j + 2u], &s0[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        float s1[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine1[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs1[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s1[0][j], &s1[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s1[0][j + 2u], &s1[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 2u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) {
                const unsigned own = own0 + y + i * 8u;
                const float x0 = in4[b0 * 32768u + b1 * 2048u + own];
                const float x1 = in5[b0 * 32768u + b1 * 2048u + own];
                const float v0 = s0[i][j] * 0.17677669f;                  // mul
                const float v1 = v0 - x0;                                 // sub
                const float v2 = ga_exp(v1);
                const float v3 = s1[i][j] * x1;                           // mul
                const float v4 = v3 * v2;                                 // mul
                state[i] = state[i] + v4;
            }
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) {
        state[i] = ga_warp_reduce<4>(state[i], [](float p, float q) -> float { return p + q; });
        const unsigned own = own0 + y + i * 8u;
        if (x == 0) out0[b0 * 32768u + b1 * 2048u + own] = state[i];
    }
}

// k3_map: neg
//   in0 f32[2,16,2048,1] -> out0 f32[2,16,2048]    524288 bytes
//   65536 elements, 4 a thread; 64 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k3_map(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    const unsigned i = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const ga_vec<float, 4> x0 = ga_load<4>(in0 + i);
    ga_vec<float, 4> y0;
    #pragma unroll
    for (unsigned e = 0; e < 4u; ++e) {
        y0.v[e] = -x0.v[e];                                               // neg
    }
    ga_store(out0 + i, y0);
}

// k4_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,2048,16,32], in3 f32[2,2048,16,32], in4 f32[2,16,2048,1], in5 f32[2,16,2048,1], in6 f32[2,16,2048] -> out0 f32[2,2048,16,1,32]    42729472 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 and 32 products: mul, sub, exp, div, add_any, mul, mul, times 32 features
//   64 rows a block, 64 columns a turn; 1024 x 128 threads
extern "C" __global__ void __launch_bounds__(128) k4_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    const float* __restrict__ in5,
    const float* __restrict__ in6,
    float* __restrict__ out0) {
    __shared__ ga_vec<float, 4> mine0[64][9];
    __shared__ ga_vec<float, 4> mine1[64][9];
    __shared__ ga_vec<float, 4> theirs0[64][9];
    __shared__ ga_vec<float, 4> theirs1[64][9];
    const unsigned lane = threadIdx.x % 32u, mine = threadIdx.x / 32u * 16u;
    const unsigned x = lane % 4u * 2u, y = mine + lane / 4u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 512u; i += 128u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in0 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine0[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    for (unsigned i = threadIdx.x; i < 512u; i += 128u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in2 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine1[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    ga_vec<float, 4> theirs0_next[4];
    const auto read_theirs0 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs0_next[u] = ga_load<4>(in1 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    ga_vec<float, 4> theirs1_next[4];
    const auto read_theirs1 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs1_next[u] = ga_load<4>(in3 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    read_theirs0(0), read_theirs1(0);
    float sum[2][8] = {};
    for (unsigned at0 = 0; at0 < 2048u; at0 += 64u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            theirs0[i / 8u][i % 8u] = ga_all_tf32(theirs0_next[u]);
        }
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            theirs1[i / 8u][i % 8u] = ga_all_tf32(theirs1_next[u]);
        }
        __syncthreads();
        if (at0 + 64u < 2048u) read_theirs0(at0 + 64u), read_theirs1(at0 + 64u);  // the next tiles
        float s0[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine0[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs0[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s0[0][j], &s0[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s0[0][j + 2u], &s0[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        float s1[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine1[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs1[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s1[0][j], &s1[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s1[0][j + 2u], &s1[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 2u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) {
                const unsigned own = own0 + y + i * 8u;
                const float x0 = in4[b0 * 32768u + b1 * 2048u + own];
                const float x1 = in5[b0 * 32768u + b1 * 2048u + own];
                const float x2 = in6[b0 * 32768u + b1 * 2048u + own];
                const float v0 = s0[i][j] * 0.17677669f;                  // mul
                const float v1 = v0 - x0;                                 // sub
                const float v2 = ga_exp(v1);
                const float v3 = s1[i][j] / x1;                           // div
                const float v4 = v3 + x2;                                 // add_any
                const float v5 = v4 * v2;                                 // mul
                s0[i][j] = v5 * 0.17677669f;                              // mul
            }
        }
        #pragma unroll
        for (unsigned j = 0; j < 16u; j += 2u) {                          // 8 of the tile
            const ga_fragment a = ga_as_fragment<float>(&s0[0][j], &s0[1][j]);
            #pragma unroll
            for (unsigned c = 0; c < 8u; c += 2u) {
                const unsigned one = __float_as_uint(theirs0[j * 4u + lane % 4u * 2u][c + lane / 16u].v[lane / 4u % 4u]);
                const unsigned two = __float_as_uint(theirs0[j * 4u + lane % 4u * 2u + 1u][c + lane / 16u].v[lane / 4u % 4u]);
                ga_add_product<float>(&sum[0][c], &sum[1][c], a, one, two);
            }
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) {
        const unsigned own = own0 + y + i * 8u;
        #pragma unroll
        for (unsigned c = 0; c < 8u; ++c) {
            const unsigned f = x + c / 2u * 8u + c % 2u;
            out0[b0 * 1048576u + own * 512u + b1 * 32u + f] = sum[i][c];
        }
    }
}

// k5_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,2048,16,32], in3 f32[2,2048,16,32], in4 f32[2,16,2048,1], in5 f32[2,16,2048,1], in6 f32[2,16,2048] -> out0 f32[2,2048,16,32]    42729472 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 and 32 products: mul, sub, exp, div, add_any, mul, mul, times 32 features
//   64 columns a block, 64 rows a turn; 1024 x 128 threads
extern "C" __global__ void __launch_bounds__(128) k5_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    const float* __restrict__ in5,
    const float* __restrict__ in6,
    float* __restrict__ out0) {
    __shared__ ga_vec<float, 4> mine0[64][9];
    __shared__ ga_vec<float, 4> mine1[64][9];
    __shared__ ga_vec<float, 4> theirs0[64][9];
    __shared__ ga_vec<float, 4> theirs1[64][9];
    const unsigned lane = threadIdx.x % 32u, mine = threadIdx.x / 32u * 16u;
    const unsigned x = lane % 4u * 2u, y = mine + lane / 4u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 512u; i += 128u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in1 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine0[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    for (unsigned i = threadIdx.x; i < 512u; i += 128u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in3 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine1[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    ga_vec<float, 4> theirs0_next[4];
    const auto read_theirs0 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs0_next[u] = ga_load<4>(in0 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    ga_vec<float, 4> theirs1_next[4];
    const auto read_theirs1 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs1_next[u] = ga_load<4>(in2 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    read_theirs0(0), read_theirs1(0);
    float sum[2][8] = {};
    for (unsigned at0 = 0; at0 < 2048u; at0 += 64u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            theirs0[i / 8u][i % 8u] = ga_all_tf32(theirs0_next[u]);
        }
        #pragma unroll
        for (unsigned u = 0; u < 4u; ++u) {
            const unsigned i = u * 128u + threadIdx.x;
            theirs1[i / 8u][i % 8u] = ga_all_tf32(theirs1_next[u]);
        }
        __syncthreads();
        if (at0 + 64u < 2048u) read_theirs0(at0 + 64u), read_theirs1(at0 + 64u);  // the next tiles
        float s0[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine0[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs0[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s0[0][j], &s0[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s0[0][j + 2u], &s0[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        float s1[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine1[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs1[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s1[0][j], &s1[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s1[0][j + 2u], &s1[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 2u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) {
                const unsigned at = at0 + x + j / 2u * 8u + j % 2u;
                const float x0 = in4[b0 * 32768u + b1 * 2048u + at];
                const float x1 = in5[b0 * 32768u + b1 * 2048u + at];
                const float x2 = in6[b0 * 32768u + b1 * 2048u + at];
                const float v0 = s0[i][j] * 0.17677669f;                  // mul
                const float v1 = v0 - x0;                                 // sub
                const float v2 = ga_exp(v1);
                const float v3 = s1[i][j] / x1;                           // div
                const float v4 = v3 + x2;                                 // add_any
                const float v5 = v4 * v2;                                 // mul
                s0[i][j] = v5 * 0.17677669f;                              // mul
            }
        }
        #pragma unroll
        for (unsigned j = 0; j < 16u; j += 2u) {                          // 8 of the tile
            const ga_fragment a = ga_as_fragment<float>(&s0[0][j], &s0[1][j]);
            #pragma unroll
            for (unsigned c = 0; c < 8u; c += 2u) {
                const unsigned one = __float_as_uint(theirs0[j * 4u + lane % 4u * 2u][c + lane / 16u].v[lane / 4u % 4u]);
                const unsigned two = __float_as_uint(theirs0[j * 4u + lane % 4u * 2u + 1u][c + lane / 16u].v[lane / 4u % 4u]);
                ga_add_product<float>(&sum[0][c], &sum[1][c], a, one, two);
            }
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) {
        const unsigned own = own0 + y + i * 8u;
        #pragma unroll
        for (unsigned c = 0; c < 8u; ++c) {
            const unsigned f = x + c / 2u * 8u + c % 2u;
            out0[b0 * 1048576u + own * 512u + b1 * 32u + f] = sum[i][c];
        }
    }
}

// k6_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,16,2048,1], in3 f32[2,16,2048,1], in4 f32[2,2048,16,32] -> out0 f32[2,2048,16,32]    34078720 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 products: mul, sub, exp, div, times 32 features
//   128 columns a block, 64 rows a turn; 512 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k6_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    float* __restrict__ out0) {
    __shared__ ga_vec<float, 4> mine0[128][9];
    __shared__ ga_vec<float, 4> theirs0[64][9];
    __shared__ ga_vec<float, 4> v[64][9];
    const unsigned lane = threadIdx.x % 32u, mine = threadIdx.x / 32u * 16u;
    const unsigned x = lane % 4u * 2u, y = mine + lane / 4u;
    const unsigned own0 = blockIdx.x % 16u * 128u;
    const unsigned batch = blockIdx.x / 16u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
        ga_vec<float, 4> row;
        const unsigned f = i % 8u * 4u, at = own0 + i / 8u;
        row = ga_load<4>(in1 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        mine0[i / 8u][i % 8u] = ga_all_tf32(row);
    }
    ga_vec<float, 4> theirs0_next[2];
    const auto read_theirs0 = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            theirs0_next[u] = ga_load<4>(in0 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    ga_vec<float, 4> v_next[2];
    const auto read_v = [&](unsigned at0) {
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            const unsigned f = i % 8u * 4u, at = at0 + i / 8u;
            v_next[u] = ga_load<4>(in4 + b0 * 1048576u + at * 512u + b1 * 32u + f);
        }
    };
    read_theirs0(0), read_v(0);
    float sum[2][8] = {};
    for (unsigned at0 = 0; at0 < 2048u; at0 += 64u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            theirs0[i / 8u][i % 8u] = ga_all_tf32(theirs0_next[u]);
        }
        #pragma unroll
        for (unsigned u = 0; u < 2u; ++u) {
            const unsigned i = u * 256u + threadIdx.x;
            v[i / 8u][i % 8u] = ga_all_tf32(v_next[u]);
        }
        __syncthreads();
        if (at0 + 64u < 2048u) read_theirs0(at0 + 64u), read_v(at0 + 64u);  // the next tiles
        float s0[2][16] = {};
        #pragma unroll
        for (unsigned f = 0; f < 4u; ++f) {                               // 8 features
            const ga_fragment a = ga_read_fragment(&mine0[mine + lane % 16u][f * 2u + lane / 16u]);
            #pragma unroll
            for (unsigned j = 0; j < 16u; j += 4u) {
                const ga_fragment b = ga_read_fragment(&theirs0[j * 4u + lane / 16u * 8u + lane % 8u][f * 2u + lane / 8u % 2u]);
                ga_add_product<float>(&s0[0][j], &s0[1][j], a, b.w[0], b.w[1]);
                ga_add_product<float>(&s0[0][j + 2u], &s0[1][j + 2u], a, b.w[2], b.w[3]);
            }
        }
        #pragma unroll
        for (unsigned i = 0; i < 2u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 16u; ++j) {
                const unsigned at = at0 + x + j / 2u * 8u + j % 2u;
                const float x0 = in2[b0 * 32768u + b1 * 2048u + at];
                const float x1 = in3[b0 * 32768u + b1 * 2048u + at];
                const float v0 = s0[i][j] * 0.17677669f;                  // mul
                const float v1 = v0 - x0;                                 // sub
                const float v2 = ga_exp(v1);
                s0[i][j] = v2 / x1;                                       // div
            }
        }
        #pragma unroll
        for (unsigned j = 0; j < 16u; j += 2u) {                          // 8 of the tile
            const ga_fragment a = ga_as_fragment<float>(&s0[0][j], &s0[1][j]);
            #pragma unroll
            for (unsigned c = 0; c < 8u; c += 2u) {
                const unsigned one = __float_as_uint(v[j * 4u + lane % 4u * 2u][c + lane / 16u].v[lane / 4u % 4u]);
                const unsigned two = __float_as_uint(v[j * 4u + lane % 4u * 2u + 1u][c + lane / 16u].v[lane / 4u % 4u]);
                ga_add_product<float>(&sum[0][c], &sum[1][c], a, one, two);
            }
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 2u; ++i) {
        const unsigned own = own0 + y + i * 8u;
        #pragma unroll
        for (unsigned c = 0; c < 8u; ++c) {
            const unsigned f = x + c / 2u * 8u + c % 2u;
            out0[b0 * 1048576u + own * 512u + b1 * 32u + f] = sum[i][c];
        }
    }
}
