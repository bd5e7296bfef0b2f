// Common parts of native kernels: positions, tasks shared by threads, partial results side by side.
//
// In: functions over a range of tasks. Out: calls of them, on this thread or on all. No system header is included,
// which keeps compile times short. GA_HEAD is the size of the head of every Python object.
#pragma once

typedef unsigned long long ga_index;

#define GA_ALONE __restrict__                 // no other argument leads to this memory
// A function over a range of tasks. Within another one, the compiler would forget that its arguments are alone.
#define GA_TASKS static __attribute__((noinline)) void
#define GA_FEW static inline __attribute__((always_inline)) void  // the same for little work, in a loop
#define GA_NEAR_OR_ALL template <bool NEAR> static inline bool  // the same, done if no number was too far for NEAR
// An array on the stack. Its alignment is said, since g++ 12 gives some that it moves by wide vectors less than these need.
#define GA_LOCAL alignas(64)
#define GA_STEP __attribute__((always_inline))  // a call inside a loop would keep it from being vectorised
#define GA_CALLED extern "C" __attribute__((visibility("default")))

// ---- arrays of Python's ----
// An ndarray in memory, which has been the same since NumPy 1.0; backends/native/arrays.py makes sure of it.
struct ga_array {
    char head[GA_HEAD - sizeof(void*)];
    void* type;
    char* data;
    int axes;
    void *lengths, *strides, *base, *dtype;
    int flags;
};
GA_CALLED void* ga_array_type;  // set when the unit is loaded
void* ga_array_type;

// Whether all are arrays in one piece and aligned: others are copied first.
template <class... A> __forceinline__ bool ga_plain(const A*... arrays) {
    return ((arrays->type == ga_array_type && (arrays->flags & 0x101) == 0x101) && ...);
}

// Whether the calling thread has stack enough (kernels/native/pool.cpp); set when the unit is loaded.
GA_CALLED bool (*ga_has_stack)();
bool (*ga_has_stack)();

// Why a call cannot begin: 1, an array has to be copied first; 4, it needs another thread. 0 if it can.
template <class... A> __forceinline__ int ga_refused(const A*... arrays) {
    return !ga_plain(arrays...) ? 1 : !ga_has_stack() ? 4 : 0;
}

// An argument of a task: the memory of an array, or its value.
template <class T> struct ga_given {
    const T& value;
    template <class U> operator U*() const { return (U*)value; }
};
template <> struct ga_given<ga_array*> {
    ga_array* const& value;
    template <class U> operator U*() const { return (U*)value->data; }
};

// ---- memory between phases ----
extern "C" void* malloc(unsigned long);
extern "C" void free(void*);
template <class T> struct ga_room {
    T* const memory;
    explicit ga_room(ga_index n) : memory((T*)malloc(n * sizeof(T))) {}
    ~ga_room() { free(memory); }
    template <class U> operator U*() const { return (U*)memory; }
    explicit operator bool() const { return memory; }
    ga_room(const ga_room&) = delete;
};

// ---- tasks ----
typedef void (*ga_work)(const void* what, ga_index first, ga_index last);
// Runs tasks on the threads of the process (kernels/native/pool.cpp); set when the unit is loaded.
GA_CALLED void (*ga_share)(ga_work work, const void* what, ga_index tasks, ga_index grain);
void (*ga_share)(ga_work work, const void* what, ga_index tasks, ga_index grain);

// Call a function for all tasks; threads take `grain` of them at a time.
template <class... T, class... A>
__forceinline__ void ga_tasks(ga_index tasks, ga_index grain, void (*function)(ga_index, ga_index, T...), const A&... given) {
    if (tasks <= grain) return function(0, tasks, ga_given<A>{given}...);
    const auto work = [&](ga_index first, ga_index last) { function(first, last, ga_given<A>{given}...); };
    ga_share(
        [](const void* what, ga_index first, ga_index last) { (*(decltype(work)*)what)(first, last); }, &work, tasks, grain);
}

// A bool in memory.
__forceinline__ bool ga_flag(const bool& place) { return *(const unsigned char*)&place != 0; }

// ---- loops ----
// Functions of Python's, set when the unit is loaded: let its other threads run, take the lock back, run handlers of signals.
GA_CALLED void* (*ga_let_go)();
void* (*ga_let_go)();
GA_CALLED void (*ga_take_back)(void*);
void (*ga_take_back)(void*);
GA_CALLED int (*ga_handle_signals)();
int (*ga_handle_signals)();

// A call of a routine with loops. It has Python's lock at first; a long one gives it away, and looks for signals now and then.
struct ga_call {
    long long left = 1 << 16;  // work until it looks the next time
    void* thread = nullptr;
    ~ga_call() {
        if (thread) ga_take_back(thread);
    }
    // Count an iteration's work. True: a handler has raised an error, so the call has to end.
    __forceinline__ bool turn(long long work) {
        left -= work;
        return __builtin_expect(left < 0, 0) && look();
    }
    __attribute__((noinline)) bool look() {
        left = 1 << 22;
        if (thread) {
            ga_take_back(thread);
            thread = nullptr;
            if (ga_handle_signals()) return true;
        }
        thread = ga_let_go();
        return false;
    }
};

template <ga_index N, class T, class U> __forceinline__ void ga_copy(T* to, const U* from) {
    if ((const void*)to == (const void*)from) return;
    for (ga_index i = 0; i < N; ++i) to[i] = from[i];
}
// For how many of n a condition is true: none (0), some (1), all (2).
__forceinline__ int ga_how_many(const bool* going, ga_index n) {
    const unsigned char* flags = (const unsigned char*)going;
    unsigned char some = 0, all = 1;
    for (ga_index i = 0; i < n; ++i) some |= flags[i], all &= flags[i];
    return some ? 1 + all : 0;
}
// Elements that are done keep their values; `inner` neighbours share a condition.
template <class T> __forceinline__ void ga_keep(T* next, const T* old, const bool* going, ga_index inner, ga_index n) {
    for (ga_index i = 0; i < n; i += inner)
        if (!*going++)
            for (ga_index j = i; j < i + inner; ++j) next[j] = old[j];
}
template <class T> __forceinline__ void ga_take(T* GA_ALONE to, const T* GA_ALONE next, const bool* GA_ALONE going, ga_index n) {
    for (ga_index i = 0; i < n; ++i) {
        const T a = next[i], b = to[i];  // read both: a choice and no branch
        to[i] = ga_flag(going[i]) ? a : b;
    }
}
// Call `step(first, last)` for the blocks begin ... end of n elements; threads take `grain` of them at a time.
template <class Step>
__forceinline__ void ga_blocks(ga_index begin, ga_index end, ga_index n, ga_index block, ga_index grain, const Step& step) {
    const ga_index tasks = end - begin;
    const auto work = [&](ga_index first, ga_index last) {
        for (ga_index b = begin + first; b < begin + last; ++b) step(b * block, n < (b + 1) * block ? n : (b + 1) * block);
    };
    if (tasks <= grain) return work(0, tasks);
    ga_share(
        [](const void* what, ga_index first, ga_index last) { (*(decltype(work)*)what)(first, last); }, &work, tasks, grain);
}
template <class T, class U> __forceinline__ void ga_copy_block(T* to, const U* from, ga_index first, ga_index last) {
    for (ga_index i = first; i < last; ++i) to[i] = from[i];
}

// ---- numbers ----
__forceinline__ ga_index ga_least(ga_index a, ga_index b) { return a < b ? a : b; }
__forceinline__ ga_index ga_most(ga_index a, ga_index b) { return a > b ? a : b; }

// A stride hidden from the compiler: g++ loads elements six apart, for example, into vectors only if it cannot see
// that.
__forceinline__ ga_index ga_apart(ga_index n) {
    asm("" : "+r"(n));
    return n;
}

// Call `step` for 0 ... N - 1, each in separate text, so that tests of the number are decided at compile time.
template <ga_index N, class Step> __forceinline__ void ga_each(Step step) {
    if constexpr (N > 1) ga_each<N - 1>(step);
    step(N - 1);
}

// ---- folds ----
// Partial results side by side, merged in an order that no number of threads changes.
template <class T, ga_index N> struct ga_parts {
    GA_LOCAL T part[N];
    explicit __forceinline__ ga_parts(T value) {
        for (ga_index l = 0; l < N; ++l) part[l] = value;
    }
    __forceinline__ T& operator[](ga_index lane) { return part[lane]; }
};
// Of bools as numbers as wide as those that are compared: g++ makes no vectors of both.
template <ga_index N> struct ga_parts<bool, N> {
    GA_LOCAL int part[N];
    explicit __forceinline__ ga_parts(bool value) {
        for (ga_index l = 0; l < N; ++l) part[l] = value;
    }
    __forceinline__ int& operator[](ga_index lane) { return part[lane]; }
};
// Call `step(position, lane)` for positions begin ... end, LANES in turn.
template <ga_index LANES, class Step> __forceinline__ void ga_lanes(ga_index begin, ga_index end, Step step) {
    ga_index j = begin;
    for (; j + LANES <= end; j += LANES)
        for (ga_index l = 0; l < LANES; ++l) step(j + l, l);
    for (ga_index l = 0; j < end; ++j, ++l) step(j, l);
}
// The same, for steps that choose, or read under conditions: see _kept_loops in compiler/native/writer.py.
template <ga_index LANES, class Step> __forceinline__ void ga_short_lanes(ga_index begin, ga_index end, Step step) {
    ga_index j = begin;
    for (; j + LANES <= end; j += LANES)
#pragma GCC unroll 1
        for (ga_index l = 0; l < LANES; ++l) step(j + l, l);
    const ga_index left = end - j;
#pragma GCC unroll 1
    for (ga_index l = 0; l < left; ++l) step(j + l, l);
}
// The lanes as one: halves onto halves, in loops that stay loops until they are vectorised.
template <ga_index HALF, class Parts, class Merge> __forceinline__ void ga_merge_halves(Parts& parts, Merge merge) {
#pragma GCC unroll 1
    for (ga_index l = 0; l < HALF; ++l) parts[l] = merge(parts[l], parts[l + HALF]);
    if constexpr (HALF > 1) ga_merge_halves<HALF / 2>(parts, merge);
}
template <class T, ga_index N, class Merge> __forceinline__ T ga_merged(ga_parts<T, N>& parts, Merge merge) {
    if constexpr (N > 1) ga_merge_halves<N / 2>(parts, merge);
    return parts[0];
}
