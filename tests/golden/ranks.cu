// k0_sort: neg, iota, sort, add
//   in0 f32[1000,100] -> out0 i32[1000,100]    800000 bytes
//   1000 rows of 100, each sorted by 128 threads; 500 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_sort(
    const float* __restrict__ in0,
    int* __restrict__ out0) {
    __shared__ float key0[256];
    __shared__ unsigned place[256];
    const unsigned t = threadIdx.x;
    const unsigned lane = t % 128u;
    const unsigned row = blockIdx.x * 2u + t / 128u;
    place[t] = lane;
    if (lane < 100u) {
        key0[t] = -in0[row * 100u + lane];
    } else {                                                              // behind the row: never compared
        key0[t] = 0.0f;
    }
    __syncthreads();
    const auto before = [](unsigned a, unsigned b) -> bool {
        const unsigned p = place[a], q = place[b];
        if (p >= 100u || q >= 100u) return p < q;
        if (ga_before(key0[a], key0[b])) return true;
        if (ga_before(key0[b], key0[a])) return false;
        return p < q;
    };
    for (unsigned run = 2; run <= 128u; run *= 2) {
        for (unsigned apart = run / 2; apart > 0; apart /= 2) {
            const unsigned other = t ^ apart;
            if (other > t && before(other, t) == ((lane & run) == 0)) {
                const auto key0_t = key0[t];
                key0[t] = key0[other];
                key0[other] = key0_t;
                const auto place_t = place[t];
                place[t] = place[other];
                place[other] = place_t;
            }
            __syncthreads();
        }
    }
    if (lane >= 100u) return;
    const unsigned from = place[t];
    const int v0 = (int)from;
    out0[row * 100u + lane] = ga_add(v0, 1);
}
