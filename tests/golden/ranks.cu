// k0_sort: neg, iota, sort, add
//   in0 f32[1000,100] -> out0 i32[1000,100]    800000 bytes
//   1000 rows of 100, each sorted by 128 threads; 500 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_sort(
    const float* __restrict__ in0,
    int* __restrict__ out0) {
    __shared__ unsigned long long key_all[512];
    const unsigned t = threadIdx.x;
    const unsigned lane = t % 128u;
    const unsigned row = blockIdx.x * 2u + t / 128u;
    unsigned long long key = ~0ull;                                       // behind the row: last
    if (lane < 100u) {
        key = (unsigned long long)ga_rising(-in0[row * 100u + lane]) << 32 | lane;
    }
    unsigned half = 0;
    for (unsigned run = 2; run <= 128u; run *= 2) {
        for (unsigned apart = run / 2; apart > 0; apart /= 2) {
            unsigned long long key_other;
            if (apart >= 32u) {
                half ^= 256u;
                key_all[half + t] = key;
                __syncthreads();
                key_other = key_all[half + (t ^ apart)];
            } else {                                                      // lanes of a warp
                key_other = ga_shuffle(key, (int)apart);
            }
            const bool first = ((lane & apart) == 0) == ((lane & run) == 0);
            if ((key_other < key) == first) key = key_other;
        }
    }
    if (lane >= 100u) return;
    const unsigned from = (unsigned)key;
    const int v0 = (int)from;
    out0[row * 100u + lane] = ga_add(v0, 1);
}
