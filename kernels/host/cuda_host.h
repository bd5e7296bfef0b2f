// The CUDA names that kernels use, for a host compiler: put in front of a kernel's text, it compiles as it stands.
//
// In: kernel text written for a GPU. Out: functions that runtime.cpp runs, a fiber for each thread. No system header is
// included, which keeps a compile short; what is declared here means what it means in CUDA. names.h comes before it.
#pragma once
#define __launch_bounds__(...)
// Far apart, so that what overruns an array does not land in the next one.
#define __shared__ static __attribute__((used, aligned(8192)))

// ---- what runtime.cpp provides ----
struct sim_index { unsigned x, y, z; };
struct sim_state { sim_index thread, block, block_size, grid_size; };
struct sim_lanes { unsigned long long value[32]; unsigned lane; };
extern "C" {
extern sim_state sim;
void sim_barrier(unsigned line);                                                          // __syncthreads
const sim_lanes* sim_exchange(unsigned mask, unsigned long long value, unsigned line);    // all lanes' values
void sim_warp_barrier(unsigned mask, unsigned line);                                      // __syncwarp
void sim_fence();                                                                         // __threadfence
void sim_atomic(void* at, unsigned bytes);                                                // before an atomic access
}
// Not watched: the accesses of these functions are no accesses of the kernel.
#define SIM_UNWATCHED __attribute__((no_sanitize("thread"), noinline)) static

#define threadIdx (sim.thread)
#define blockIdx (sim.block)
#define blockDim (sim.block_size)
#define gridDim (sim.grid_size)
#define warpSize 32

// ---- order between threads ----
#define __syncthreads() sim_barrier(__LINE__)
#define __threadfence() sim_fence()
#define __syncwarp(...) sim_warp_barrier(sim_mask(__VA_ARGS__), __LINE__)
inline unsigned sim_mask(unsigned mask = 0xffffffffu) { return mask; }

// ---- values between lanes ----
template <class T> inline unsigned long long sim_word(T v) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    unsigned long long word = 0;
    __builtin_memcpy(&word, &v, sizeof v);
    return word;
}
// The value of lane `from(lane)` in groups of `width` lanes; a lane's own where that is outside its group.
template <class T, class From> SIM_UNWATCHED T sim_shuffle(unsigned mask, T v, int width, unsigned line, From from) {
    const sim_lanes* all = sim_exchange(mask, sim_word(v), line);
    const int lane = (int)all->lane, first = lane & ~(width - 1), source = from(lane - first);
    const unsigned long long word = all->value[source >= 0 && source < width ? first + source : lane];
    __builtin_memcpy(&v, &word, sizeof v);
    return v;
}
template <class T> inline T sim_shfl(unsigned line, unsigned mask, T v, int from, int width = 32) {
    return sim_shuffle(mask, v, width, line, [=](int) { return from & (width - 1); });
}
template <class T> inline T sim_shfl_xor(unsigned line, unsigned mask, T v, int by, int width = 32) {
    return sim_shuffle(mask, v, width, line, [=](int lane) { return lane ^ by; });
}
template <class T> inline T sim_shfl_down(unsigned line, unsigned mask, T v, unsigned by, int width = 32) {
    return sim_shuffle(mask, v, width, line, [=](int lane) { return lane + (int)by; });
}
template <class T> inline T sim_shfl_up(unsigned line, unsigned mask, T v, unsigned by, int width = 32) {
    return sim_shuffle(mask, v, width, line, [=](int lane) { return lane - (int)by; });
}
// The values of all lanes: what tensor cores see at once.
template <class T> SIM_UNWATCHED void sim_gather(unsigned line, T v, T* all) {
    const sim_lanes* lanes = sim_exchange(0xffffffffu, sim_word(v), line);
    for (unsigned lane = 0; lane < 32; ++lane) __builtin_memcpy(all + lane, &lanes->value[lane], sizeof v);
}
#define sim_all(...) sim_gather(__LINE__, __VA_ARGS__)
// A mask of the lanes in which `v` is not 0.
SIM_UNWATCHED unsigned sim_ballot(unsigned line, unsigned mask, int v) {
    const sim_lanes* all = sim_exchange(mask, v != 0, line);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) bits |= (mask >> lane & (unsigned)all->value[lane]) << lane;
    return bits;
}
// The lanes with the same value, a bit each.
template <class T> SIM_UNWATCHED unsigned sim_match(unsigned line, unsigned mask, T v) {
    const sim_lanes* all = sim_exchange(mask, sim_word(v), line);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && all->value[lane] == sim_word(v)) bits |= 1u << lane;
    return bits;
}
#define __match_any_sync(...) sim_match(__LINE__, __VA_ARGS__)
#define __any_sync(...) (sim_ballot(__LINE__, __VA_ARGS__) != 0)
#define __ballot_sync(...) sim_ballot(__LINE__, __VA_ARGS__)
#define __shfl_sync(...) sim_shfl(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) sim_shfl_xor(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) sim_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) sim_shfl_up(__LINE__, __VA_ARGS__)

// ---- atomics: threads take turns, so a read and its write cannot be separated ----
template <class T, class Change> SIM_UNWATCHED T sim_change(T* at, Change change) {
    sim_atomic(at, sizeof(T));
    const T old = *at;
    *at = change(old);
    return old;
}
template <class T> struct sim_same { typedef T type; };
template <class T> using sim_plain = typename sim_same<T>::type;  // the pointer alone decides T
template <class T> inline T sim_sum(T a, T b) { return (T)(a + b); }
inline int sim_sum(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
#define SIM_ATOMIC(name, result) \
    template <class T> inline T name(T* at, sim_plain<T> v) { return sim_change(at, [=](T old) { return (T)(result); }); }
SIM_ATOMIC(atomicAdd, sim_sum(old, v))
SIM_ATOMIC(atomicSub, sim_sum(old, (T)-v))
SIM_ATOMIC(atomicMin, v < old ? v : old)
SIM_ATOMIC(atomicMax, v > old ? v : old)
SIM_ATOMIC(atomicAnd, old & v)
SIM_ATOMIC(atomicOr, old | v)
SIM_ATOMIC(atomicXor, old ^ v)
SIM_ATOMIC(atomicExch, v)
SIM_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
SIM_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
template <class T> inline T atomicCAS(T* at, sim_plain<T> expected, sim_plain<T> v) {
    return sim_change(at, [=](T old) { return old == expected ? v : old; });
}

// ---- how a kernel is called: its arguments are consecutive in `args` ----
struct sim_call {
    template <class... A> __attribute__((no_sanitize("thread"))) sim_call(void (*kernel)(A...), A... args) { kernel(args...); }
};
template <class... A> SIM_UNWATCHED void sim_apply(void (*kernel)(A...), void** args) {
    unsigned i = 0;
    sim_call{kernel, *(A*)args[i++]...};  // braces: from left to right
}
#define SIM_EXPORT(kernel) \
    extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) void sim_run_##kernel(void** args) { \
        sim_apply(kernel, args);                                                                                   \
    }
