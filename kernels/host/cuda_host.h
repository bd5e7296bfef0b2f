// The CUDA names that kernels use, for a host compiler: put in front of a kernel's text, it compiles as it stands.
//
// In: kernel text written for a GPU. Out: functions that runtime.cpp runs, a fiber for each thread. No system header is
// included, which keeps a compile short; what is declared here means what it means in CUDA.
#pragma once
#define GA_HOST 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
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
#define __shfl_sync(...) sim_shfl(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) sim_shfl_xor(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) sim_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) sim_shfl_up(__LINE__, __VA_ARGS__)

// ---- atomics: threads take turns, so reading and writing are never apart ----
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

// ---- memory and bits ----
template <class T> inline T __ldg(const T* p) { return *p; }
template <class To, class From> inline To sim_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "bits are read as bits");
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}
inline unsigned __float_as_uint(float x) { return sim_bits<unsigned>(x); }
inline int __float_as_int(float x) { return sim_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return sim_bits<float>(x); }
inline float __int_as_float(int x) { return sim_bits<float>(x); }
inline long long __double_as_longlong(double x) { return sim_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return sim_bits<double>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }

// ---- mathematics: the host's C library ----
#define SIM_MATH1(name) extern "C" double name(double); extern "C" float name##f(float);
#define SIM_MATH2(name) extern "C" double name(double, double); extern "C" float name##f(float, float);
SIM_MATH1(acos) SIM_MATH1(acosh) SIM_MATH1(asin) SIM_MATH1(asinh) SIM_MATH1(atan) SIM_MATH1(atanh) SIM_MATH1(cbrt)
SIM_MATH1(ceil) SIM_MATH1(cos) SIM_MATH1(cosh) SIM_MATH1(erf) SIM_MATH1(erfc) SIM_MATH1(exp) SIM_MATH1(exp2)
SIM_MATH1(expm1) SIM_MATH1(fabs) SIM_MATH1(floor) SIM_MATH1(lgamma) SIM_MATH1(log) SIM_MATH1(log10) SIM_MATH1(log1p)
SIM_MATH1(log2) SIM_MATH1(rint) SIM_MATH1(round) SIM_MATH1(sin) SIM_MATH1(sinh) SIM_MATH1(sqrt) SIM_MATH1(tan)
SIM_MATH1(tanh) SIM_MATH1(tgamma) SIM_MATH1(trunc)
SIM_MATH2(atan2) SIM_MATH2(copysign) SIM_MATH2(fmax) SIM_MATH2(fmin) SIM_MATH2(fmod) SIM_MATH2(hypot)
SIM_MATH2(nextafter) SIM_MATH2(pow) SIM_MATH2(remainder)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// ---- how a kernel is called: its arguments lie one after another behind `args` ----
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
