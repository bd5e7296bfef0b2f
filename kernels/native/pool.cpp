// The threads that share the tasks of native kernels, one pool for each process.
//
// In: a function, the number of tasks, and how many a thread takes at a time. Out: all of them done. The assignment of
// tasks to threads is arbitrary, so tasks must not depend on it. A caller that finds the pool busy does its tasks
// alone; workers that come late find nothing to do, and are not waited for.
#include <pthread.h>
#include <sched.h>

typedef unsigned long long ga_index;
typedef void (*ga_work)(const void* what, ga_index first, ga_index last);
#define GA_CALLED extern "C" __attribute__((visibility("default")))

namespace {

enum { LOOKS = 4000, MOST = 256 };  // looks at the job before a worker sleeps: some tens of microseconds
const unsigned long STACK = 1 << 23;  // of a worker, as large as a main thread's

struct Job {
    ga_work work;
    const void* what;
    ga_index tasks, grain, next;
};

Job job;
pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;  // held by the caller that has the pool
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // for all below
pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
unsigned number = 0;         // of the job; with the next two also read without the lock
int wanted = 1, inside = 0;  // threads that are to share, workers that have a seat
int workers = 0, asleep = 0, seats = 0;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Take tasks until none is left.
void work() {
    for (;;) {
        const ga_index first = __atomic_fetch_add(&job.next, job.grain, __ATOMIC_RELAXED);
        if (first >= job.tasks) return;
        const ga_index last = first + job.grain;
        job.work(job.what, first, last < job.tasks ? last : job.tasks);
    }
}

void* worker(void*) {
    unsigned seen = 0;
    for (;;) {
        // A look costs little while jobs follow one another; then sleep.
        for (int i = 0; i < LOOKS && __atomic_load_n(&number, __ATOMIC_ACQUIRE) == seen; ++i) pause();
        pthread_mutex_lock(&lock);
        while (number == seen) {
            ++asleep;
            pthread_cond_wait(&begun, &lock);
            --asleep;
        }
        seen = number;
        const bool has_seat = seats > 0;
        if (has_seat) --seats, __atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&lock);
        if (!has_seat) continue;
        work();
        pthread_mutex_lock(&lock);
        if (__atomic_sub_fetch(&inside, 1, __ATOMIC_RELEASE) == 0) pthread_cond_signal(&ended);
        pthread_mutex_unlock(&lock);
    }
    return nullptr;
}

void start_workers() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (; workers < wanted - 1; ++workers) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, worker, nullptr)) break;  // fewer threads: the same results
    }
    pthread_attr_destroy(&attributes);
}

// A forked child has no workers, and locks that others may have held.
void forget_workers() {
    turn = PTHREAD_MUTEX_INITIALIZER;
    lock = PTHREAD_MUTEX_INITIALIZER;
    begun = PTHREAD_COND_INITIALIZER;
    ended = PTHREAD_COND_INITIALIZER;
    number = 0;
    workers = asleep = seats = inside = 0;
}

const int registered = pthread_atfork(nullptr, nullptr, forget_workers);

}  // namespace

// How many threads share tasks from now on, the caller among them.
GA_CALLED void ga_pool_threads(int n) {
    pthread_mutex_lock(&lock);
    __atomic_store_n(&wanted, n < 1 ? 1 : n > MOST ? MOST : n, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

GA_CALLED void ga_pool_share(ga_work function, const void* what, ga_index tasks, ga_index grain) {
    if (__atomic_load_n(&wanted, __ATOMIC_RELAXED) < 2 || pthread_mutex_trylock(&turn)) return function(what, 0, tasks);
    pthread_mutex_lock(&lock);
    start_workers();
    job = {function, what, tasks, grain, 0};
    // No more workers than there are shares for them.
    const ga_index shares = (tasks + grain - 1) / grain;
    seats = (ga_index)(wanted - 1) < shares - 1 ? wanted - 1 : (int)(shares - 1);
    __atomic_store_n(&number, number + 1, __ATOMIC_RELEASE);
    if (asleep) pthread_cond_broadcast(&begun);
    pthread_mutex_unlock(&lock);
    work();
    // No more threads enter; those inside finish their tasks.
    for (int i = 0; i < LOOKS && __atomic_load_n(&inside, __ATOMIC_ACQUIRE); ++i) pause();
    pthread_mutex_lock(&lock);
    seats = 0;
    while (inside) pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&turn);
}

// ---- the stack of a caller ----
// Whether this thread has as much stack left as native code needs at most. Systems give it eight megabytes, but a
// program may have requested less.
GA_CALLED bool ga_pool_has_stack() {
    static __thread const char* lowest = nullptr;
    const char here = 0;
#ifdef __linux__
    if (!lowest) {
        pthread_attr_t attributes;
        void* begin = nullptr;
        size_t size = 0;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            pthread_attr_getstack(&attributes, &begin, &size);
            pthread_attr_destroy(&attributes);
        }
        lowest = begin ? (const char*)begin : (const char*)1;  // a system that does not say
    }
#endif
    return (unsigned long)&here - (unsigned long)lowest >= STACK / 4;
}

// ---- the BLAS library ----
// The number of its threads, if it can be queried; null if not.
GA_CALLED int (*ga_blas_threads)() = nullptr;
GA_CALLED void (*ga_blas_use)(int) = nullptr;

namespace {
pthread_mutex_t of_blas = PTHREAD_MUTEX_INITIALIZER, by_turns = PTHREAD_MUTEX_INITIALIZER;
int users = 0, before = 1;
void forget_users() {
    of_blas = PTHREAD_MUTEX_INITIALIZER;
    by_turns = PTHREAD_MUTEX_INITIALIZER;
    if (users && before != 1) ga_blas_use(before);
    users = 0;
}
const int also_registered = pthread_atfork(nullptr, nullptr, forget_users);
}  // namespace

// One thread from the first of those that need it alone until the last of them has ended. A library that cannot be
// configured uses its own threads in each call: calls take turns.
GA_CALLED void ga_blas_alone(bool begin) {
    if (!ga_blas_use) {
        begin ? pthread_mutex_lock(&by_turns) : pthread_mutex_unlock(&by_turns);
        return;
    }
    pthread_mutex_lock(&of_blas);
    if (begin ? users++ == 0 : --users == 0) {
        if (begin) before = ga_blas_threads();
        if (before != 1) ga_blas_use(begin ? 1 : before);
    }
    pthread_mutex_unlock(&of_blas);
}
