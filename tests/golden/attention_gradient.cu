// k0_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,2048,16,32] -> out0 f32[2,2048,16,1,32], out1 f32[2,16,2048,1], out2 f32[2,16,2048,1]    34078720 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 products: mul, rescaled weights, times 32 features
//   64 rows a block, 32 columns a turn; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    float* __restrict__ out0,
    float* __restrict__ out1,
    float* __restrict__ out2) {
    __shared__ float mine0[32][65];
    __shared__ float theirs0[32][33];
    __shared__ float w[32][65];
    __shared__ float v[32][32];
    const unsigned x = threadIdx.x % 16u, y = threadIdx.x / 16u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine0[f][i / 32u] = in0[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    float sum[4][2] = {};
    float most[4], total[4];
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) most[i] = -GA_INFF, total[i] = 0.0f;
    for (unsigned at0 = 0; at0 < 2048u; at0 += 32u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs0[f][i / 32u] = in1[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            v[i / 32u][f] = in2[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        __syncthreads();
        float s0[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
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
                s0[i][j] = s0[i][j] * 0.17677669f;                        // mul
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
            for (unsigned c = 0; c < 2u; ++c) sum[i][c] = sum[i][c] * shrink;
        }
        __syncwarp();
        #pragma unroll 8
        for (unsigned k = 0; k < 32u; ++k) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned c = 0; c < 2u; ++c)
                    sum[i][c] = fmaf(w[k][y * 4u + i], v[k][x + c * 16u], sum[i][c]);
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) {
        const float whole = ga_warp_reduce<16>(total[i], [](float p, float q) -> float { return p + q; });
        const unsigned own = own0 + y * 4u + i;
        #pragma unroll
        for (unsigned c = 0; c < 2u; ++c) {
            const unsigned f = x + c * 16u;
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
//   64 rows a block, 32 columns a turn; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k2_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    const float* __restrict__ in5,
    float* __restrict__ out0) {
    __shared__ float mine0[32][65];
    __shared__ float theirs0[32][33];
    __shared__ float mine1[32][65];
    __shared__ float theirs1[32][33];
    const unsigned x = threadIdx.x % 16u, y = threadIdx.x / 16u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine0[f][i / 32u] = in0[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine1[f][i / 32u] = in2[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    float state[4];
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) state[i] = 0.0f;
    for (unsigned at0 = 0; at0 < 2048u; at0 += 32u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs0[f][i / 32u] = in1[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs1[f][i / 32u] = in3[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        __syncthreads();
        float s0[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned j = 0; j < 2u; ++j)
                    s0[i][j] = fmaf(mine0[f][y * 4u + i], theirs0[f][x * 2u + j], s0[i][j]);
        }
        float s1[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned j = 0; j < 2u; ++j)
                    s1[i][j] = fmaf(mine1[f][y * 4u + i], theirs1[f][x * 2u + j], s1[i][j]);
        }
        #pragma unroll
        for (unsigned i = 0; i < 4u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 2u; ++j) {
                const unsigned own = own0 + y * 4u + i;
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
    for (unsigned i = 0; i < 4u; ++i) {
        state[i] = ga_warp_reduce<16>(state[i], [](float p, float q) -> float { return p + q; });
        const unsigned own = own0 + y * 4u + i;
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
//   64 rows a block, 32 columns a turn; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k4_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    const float* __restrict__ in5,
    const float* __restrict__ in6,
    float* __restrict__ out0) {
    __shared__ float mine0[32][65];
    __shared__ float theirs0[32][33];
    __shared__ float mine1[32][65];
    __shared__ float theirs1[32][33];
    __shared__ float w[32][65];
    const unsigned x = threadIdx.x % 16u, y = threadIdx.x / 16u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine0[f][i / 32u] = in0[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine1[f][i / 32u] = in2[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    float sum[4][2] = {};
    for (unsigned at0 = 0; at0 < 2048u; at0 += 32u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs0[f][i / 32u] = in1[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs1[f][i / 32u] = in3[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        __syncthreads();
        float s0[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned j = 0; j < 2u; ++j)
                    s0[i][j] = fmaf(mine0[f][y * 4u + i], theirs0[f][x * 2u + j], s0[i][j]);
        }
        float s1[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned j = 0; j < 2u; ++j)
                    s1[i][j] = fmaf(mine1[f][y * 4u + i], theirs1[f][x * 2u + j], s1[i][j]);
        }
        #pragma unroll
        for (unsigned i = 0; i < 4u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 2u; ++j) {
                const unsigned own = own0 + y * 4u + i;
                const float x0 = in4[b0 * 32768u + b1 * 2048u + own];
                const float x1 = in5[b0 * 32768u + b1 * 2048u + own];
                const float x2 = in6[b0 * 32768u + b1 * 2048u + own];
                const float v0 = s0[i][j] * 0.17677669f;                  // mul
                const float v1 = v0 - x0;                                 // sub
                const float v2 = ga_exp(v1);
                const float v3 = s1[i][j] / x1;                           // div
                const float v4 = v3 + x2;                                 // add_any
                const float v5 = v4 * v2;                                 // mul
                w[x * 2u + j][y * 4u + i] = v5 * 0.17677669f;             // mul
            }
        }
        __syncwarp();
        #pragma unroll 8
        for (unsigned k = 0; k < 32u; ++k) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned c = 0; c < 2u; ++c)
                    sum[i][c] = fmaf(w[k][y * 4u + i], theirs0[x + c * 16u][k], sum[i][c]);
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) {
        const unsigned own = own0 + y * 4u + i;
        #pragma unroll
        for (unsigned c = 0; c < 2u; ++c) {
            const unsigned f = x + c * 16u;
            out0[b0 * 1048576u + own * 512u + b1 * 32u + f] = sum[i][c];
        }
    }
}

// k5_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,2048,16,32], in3 f32[2,2048,16,32], in4 f32[2,16,2048,1], in5 f32[2,16,2048,1], in6 f32[2,16,2048] -> out0 f32[2,2048,16,32]    42729472 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 and 32 products: mul, sub, exp, div, add_any, mul, mul, times 32 features
//   64 columns a block, 32 rows a turn; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k5_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    const float* __restrict__ in5,
    const float* __restrict__ in6,
    float* __restrict__ out0) {
    __shared__ float mine0[32][65];
    __shared__ float theirs0[32][33];
    __shared__ float mine1[32][65];
    __shared__ float theirs1[32][33];
    __shared__ float w[32][65];
    const unsigned x = threadIdx.x % 16u, y = threadIdx.x / 16u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine0[f][i / 32u] = in1[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine1[f][i / 32u] = in3[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    float sum[4][2] = {};
    for (unsigned at0 = 0; at0 < 2048u; at0 += 32u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs0[f][i / 32u] = in0[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs1[f][i / 32u] = in2[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        __syncthreads();
        float s0[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned j = 0; j < 2u; ++j)
                    s0[i][j] = fmaf(mine0[f][y * 4u + i], theirs0[f][x * 2u + j], s0[i][j]);
        }
        float s1[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned j = 0; j < 2u; ++j)
                    s1[i][j] = fmaf(mine1[f][y * 4u + i], theirs1[f][x * 2u + j], s1[i][j]);
        }
        #pragma unroll
        for (unsigned i = 0; i < 4u; ++i) {
            #pragma unroll
            for (unsigned j = 0; j < 2u; ++j) {
                const unsigned at = at0 + x * 2u + j;
                const float x0 = in4[b0 * 32768u + b1 * 2048u + at];
                const float x1 = in5[b0 * 32768u + b1 * 2048u + at];
                const float x2 = in6[b0 * 32768u + b1 * 2048u + at];
                const float v0 = s0[i][j] * 0.17677669f;                  // mul
                const float v1 = v0 - x0;                                 // sub
                const float v2 = ga_exp(v1);
                const float v3 = s1[i][j] / x1;                           // div
                const float v4 = v3 + x2;                                 // add_any
                const float v5 = v4 * v2;                                 // mul
                w[x * 2u + j][y * 4u + i] = v5 * 0.17677669f;             // mul
            }
        }
        __syncwarp();
        #pragma unroll 8
        for (unsigned k = 0; k < 32u; ++k) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned c = 0; c < 2u; ++c)
                    sum[i][c] = fmaf(w[k][y * 4u + i], theirs0[x + c * 16u][k], sum[i][c]);
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) {
        const unsigned own = own0 + y * 4u + i;
        #pragma unroll
        for (unsigned c = 0; c < 2u; ++c) {
            const unsigned f = x + c * 16u;
            out0[b0 * 1048576u + own * 512u + b1 * 32u + f] = sum[i][c];
        }
    }
}

// k6_sweep: sweep
//   in0 f32[2,2048,16,32], in1 f32[2,2048,16,32], in2 f32[2,16,2048,1], in3 f32[2,16,2048,1], in4 f32[2,2048,16,32] -> out0 f32[2,2048,16,32]    34078720 bytes
//   2 x 16 x 2048 x 1 x 2048 sums of 32 products: mul, sub, exp, div, times 32 features
//   64 columns a block, 32 rows a turn; 1024 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k6_sweep(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    const float* __restrict__ in4,
    float* __restrict__ out0) {
    __shared__ float mine0[32][65];
    __shared__ float theirs0[32][33];
    __shared__ float w[32][65];
    __shared__ float v[32][32];
    const unsigned x = threadIdx.x % 16u, y = threadIdx.x / 16u;
    const unsigned own0 = blockIdx.x % 32u * 64u;
    const unsigned batch = blockIdx.x / 32u;
    const unsigned b0 = batch / 16u;
    const unsigned b1 = batch % 16u;
    for (unsigned i = threadIdx.x; i < 2048u; i += 256u) {
        const unsigned f = i % 32u, at = own0 + i / 32u;
        mine0[f][i / 32u] = in1[b0 * 1048576u + at * 512u + b1 * 32u + f];
    }
    float sum[4][2] = {};
    for (unsigned at0 = 0; at0 < 2048u; at0 += 32u) {                     // sweep
        __syncthreads();                                                  // the tile before is done with
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            theirs0[f][i / 32u] = in0[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        for (unsigned i = threadIdx.x; i < 1024u; i += 256u) {
            const unsigned f = i % 32u, at = at0 + i / 32u;
            v[i / 32u][f] = in4[b0 * 1048576u + at * 512u + b1 * 32u + f];
        }
        __syncthreads();
        float s0[4][2] = {};
        #pragma unroll 8
        for (unsigned f = 0; f < 32u; ++f) {
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
                const unsigned at = at0 + x * 2u + j;
                const float x0 = in2[b0 * 32768u + b1 * 2048u + at];
                const float x1 = in3[b0 * 32768u + b1 * 2048u + at];
                const float v0 = s0[i][j] * 0.17677669f;                  // mul
                const float v1 = v0 - x0;                                 // sub
                const float v2 = ga_exp(v1);
                w[x * 2u + j][y * 4u + i] = v2 / x1;                      // div
            }
        }
        __syncwarp();
        #pragma unroll 8
        for (unsigned k = 0; k < 32u; ++k) {
            #pragma unroll
            for (unsigned i = 0; i < 4u; ++i)
                #pragma unroll
                for (unsigned c = 0; c < 2u; ++c)
                    sum[i][c] = fmaf(w[k][y * 4u + i], v[k][x + c * 16u], sum[i][c]);
        }
    }
    #pragma unroll
    for (unsigned i = 0; i < 4u; ++i) {
        const unsigned own = own0 + y * 4u + i;
        #pragma unroll
        for (unsigned c = 0; c < 2u; ++c) {
            const unsigned f = x + c * 16u;
            out0[b0 * 1048576u + own * 512u + b1 * 32u + f] = sum[i][c];
        }
    }
}
