// k0_sort: sort
//   in0 f32[1000,100] -> out0 f32[1000,100]    800000 bytes
//   1000 rows of 100, each sorted by 128 threads; 500 x 256 threads
extern "C" __global__ void __launch_bounds__(256) k0_sort(
    const float* __restrict__ in0,
    float* __restrict__ out0) {
    __shared__ float key0_all[256];
    __shared__ unsigned place_all[256];
    const unsigned t = threadIdx.x;
    const unsigned lane = t % 128u;
    const unsigned row = blockIdx.x * 2u + t / 128u;
    unsigned place = lane;
    float key0 = 0.0f;                                                    // behind the row: never compared
    if (lane < 100u) {
        key0 = in0[row * 100u + lane];
    }
    const auto before = [&](float key0_other, unsigned place_other) -> bool {
        if (place >= 100u || place_other >= 100u) return place_other < place;
        if (ga_before(key0_other, key0)) return true;
        if (ga_before(key0, key0_other)) return false;
        return place_other < place;
    };
    for (unsigned run = 2; run <= 128u; run *= 2) {
        for (unsigned apart = run / 2; apart > 0; apart /= 2) {
            float key0_other;
            unsigned place_other;
            if (apart >= 32u) {
                key0_all[t] = key0;
                place_all[t] = place;
                __syncthreads();
                key0_other = key0_all[t ^ apart];
                place_other = place_all[t ^ apart];
                __syncthreads();
            } else {                                                      // lanes of a warp
                key0_other = ga_shuffle(key0, (int)apart);
                place_other = ga_shuffle(place, (int)apart);
            }
            const bool first = ((lane & apart) == 0) == ((lane & run) == 0);
            if (before(key0_other, place_other) == first) {
                key0 = key0_other;
                place = place_other;
            }
        }
    }
    if (lane >= 100u) return;
    out0[row * 100u + lane] = key0;
}
