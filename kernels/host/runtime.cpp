// Runs kernels on one CPU core: a fiber for each thread of a block, blocks one after another.
//
// In: a kernel's entry, its arguments, grid and block, the memory it may touch, a seed. Out: memory as the kernel leaves
// it, or the first fault in words. Which thread goes next, and which block, is drawn from the seed: an order that
// happens to work is not mistaken for one that must.
#include "simulator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__) || defined(SIM_PORTABLE)
#include <ucontext.h>
#define SIM_UCONTEXT 1
#endif

extern "C" {
sim_state sim;
}
Now now;
bool failed;

namespace {
enum State : uint8_t { READY, AT_BARRIER, IN_WARP, DONE };

struct Fiber {
    State state;
    uint8_t parity;  // which of its warp's two boards the next exchange uses
    unsigned line;   // where it waits
    uint16_t warp, fences, met;
    uint32_t fenced_at;
    sim_index index;
    char* stack;
    void* top;
#ifdef SIM_UCONTEXT
    ucontext_t context;
#endif
};
// Must begin as sim_lanes of cuda_host.h does.
struct Board {
    unsigned long long value[32];
    unsigned lane;
    unsigned arrived, mask, line;
};

Fiber fibers[MOST_THREADS];
Fiber scheduler;
Board boards[MOST_THREADS / 32][2];
unsigned ready[MOST_THREADS], n_ready, n_threads, n_live, n_waiting;
uint32_t first_stamp, stamps;
unsigned* order;
char message[400];
uint64_t random_state;
void (*entry)(void**);
void** arguments;

unsigned draw(unsigned n) {  // 0 .. n - 1
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 32) * n >> 32);  // a remainder would take longer than to run the thread
}

// ---- fibers ----
#ifdef SIM_UCONTEXT
void change(Fiber* from, Fiber* to) { swapcontext(&from->context, &to->context); }
#else
extern "C" void sim_change_stack(void** save, void* load);
__asm__(
    ".text\n.hidden sim_change_stack\n.globl sim_change_stack\n.type sim_change_stack, @function\nsim_change_stack:\n"
    " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
void change(Fiber* from, Fiber* to) { sim_change_stack(&from->top, to->top); }
#endif

Fiber* self() { return &fibers[now.thread]; }

void yield() {
    Fiber* f = self();
    f->warp = now.warp, f->fences = now.fences, f->met = now.met, f->fenced_at = now.fenced_at;
    change(f, &scheduler);
}

void run_thread() {
    for (;;) {  // a fiber serves the thread of its number in every block
        entry(arguments);
        self()->state = DONE;
        --n_live;
        yield();
    }
}

bool prepare(Fiber* f) {
    if (f->stack == nullptr) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* memory = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED) return false;
        mprotect(memory, 4096, PROT_NONE);  // too deep a stack ends here, not in the next thread's
        f->stack = (char*)memory;
    }
#ifdef SIM_UCONTEXT
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = nullptr;
    makecontext(&f->context, run_thread, 0);
#else
    // Staggered within their pages: L1 holds few lines with the same offset.
    void** top = (void**)(f->stack + STACK - (size_t)(f - fibers) % 64 * 192);
    *--top = nullptr;  // where a return address would be: the stack is aligned as after a call
    *--top = (void*)run_thread;
    for (int k = 0; k < 6; ++k) *--top = nullptr;
    f->top = top;
#endif
    return true;
}

void resume(unsigned i) {
    Fiber* f = &fibers[i];
    sim.thread = f->index;
    now.thread = (uint16_t)i, now.warp = f->warp, now.fences = f->fences, now.met = f->met, now.fenced_at = f->fenced_at;
    now.stack = f->stack;
    change(&scheduler, f);
}

// ---- a block ----
void open_barrier() {
    unsigned line = 0;
    n_waiting = 0;
    ++now.epoch;
    if (n_live != n_threads)
        fail("divergent barrier: __syncthreads is reached by %u of %u threads, the others have returned", n_live, n_threads);
    for (unsigned i = 0; i < n_threads; ++i) {
        if (fibers[i].state != AT_BARRIER) continue;
        if (line != 0 && fibers[i].line != line)
            fail("divergent barrier: threads wait at different __syncthreads, lines %u and %u", line, fibers[i].line);
        line = fibers[i].line;
        fibers[i].state = READY;
        fibers[i].met = 0;
        ready[n_ready++] = i;
    }
}

void run_block() {
    n_live = n_ready = n_threads;
    n_waiting = 0;
    memset(boards, 0, sizeof boards);
    for (unsigned i = 0; i < n_threads; ++i) {
        Fiber& f = fibers[i];
        f.state = READY, f.parity = 0, f.warp = 0, f.fences = 0, f.met = 0, f.fenced_at = 0;
        ready[i] = i;
    }
    while (!failed) {
        if (n_ready == 0) {
            if (n_live == 0) return;
            if (n_waiting == n_live) {
                open_barrier();
            } else {
                unsigned i = 0;
                while (fibers[i].state != IN_WARP) ++i;
                fail("deadlock: thread %u waits at line %u for lanes of its warp that do not come; %u of %u threads are at a "
                     "barrier", i, fibers[i].line, n_waiting, n_live);
            }
            continue;
        }
        const unsigned k = draw(n_ready), i = ready[k];
        ready[k] = ready[--n_ready];
        resume(i);
    }
}
}  // namespace

bool of_the_simulator(const char* at) {
    return (size_t)(at - (const char*)&sim) < sizeof sim || (size_t)(at - (const char*)boards) < sizeof boards;
}

unsigned block_number(uint32_t stamp) { return order[stamp - first_stamp]; }

void fail(const char* format, ...) {
    if (failed) return;
    failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
}

void leave() {
    yield();
    abort();  // an abandoned thread is never resumed
}

extern "C" {
void sim_barrier(unsigned line) {
    self()->state = AT_BARRIER;
    self()->line = line;
    ++n_waiting;
    yield();
}

const Board* sim_exchange(unsigned mask, unsigned long long value, unsigned line) {
    const unsigned lane = now.thread % 32, first = now.thread - lane;
    Fiber* f = self();
    Board& board = boards[now.thread / 32][f->parity];
    f->parity ^= 1;
    f->line = line;
    if (!(mask >> lane & 1)) fail("warp: lane %u calls at line %u with mask %#x, which leaves it out", lane, line, mask);
    if (board.arrived == 0) board.mask = mask, board.line = line;
    if (board.mask != mask || board.line != line)
        fail("divergent warp: lanes meet at lines %u and %u with masks %#x and %#x", board.line, line, board.mask, mask);
    if (failed) leave();
    board.value[lane] = value;
    board.arrived |= 1u << lane;
    if (board.arrived != mask) {
        f->state = IN_WARP;
        yield();
    } else {
        board.arrived = 0;
        for (unsigned i = 0; i < 32; ++i)
            if (i != lane && (mask >> i & 1)) {
                fibers[first + i].state = READY;
                ready[n_ready++] = first + i;
            }
    }
    board.lane = lane;  // read before another thread runs
    ++now.met;
    return &board;
}

void sim_warp_barrier(unsigned mask, unsigned line) {
    sim_exchange(mask, 0, line);
    ++now.warp;
}

// Runs a kernel; returns 0, or 1 if sim_error() has a message. shape: grid x y z, block x y z. Runs `many` blocks (0:
// all), starting with `from`. The data moved is written to `counts`, unless that is null.
int sim_launch(void (*kernel)(void**), void** args, const unsigned* shape, const Region* regions, int n_regions,
               uint64_t seed, uint64_t from, uint64_t many, Moved* counts) {
    failed = false;
    message[0] = 0;
    entry = kernel;
    arguments = args;
    sim.grid_size = {shape[0], shape[1], shape[2]};
    sim.block_size = {shape[3], shape[4], shape[5]};
    const uint64_t all = (uint64_t)shape[0] * shape[1] * shape[2];
    const uint64_t threads = (uint64_t)shape[3] * shape[4] * shape[5];
    const uint64_t count = many ? many : all;
    if (threads == 0 || threads > MOST_THREADS || all == 0 || from + count > all || count > 0x7fffffff) {
        fail("launch: %llu threads a block, %llu blocks", (unsigned long long)threads, (unsigned long long)all);
        return 1;
    }
    n_threads = (unsigned)threads;
    for (unsigned i = 0; i < n_threads; ++i) {
        if (!prepare(&fibers[i])) {
            fail("no memory for the stack of thread %u", i);
            return 1;
        }
        fibers[i].index = {i % shape[3], i / shape[3] % shape[4], i / (shape[3] * shape[4])};
    }
    random_state = (seed + 1) * 0x9E3779B97F4A7C15ull;
    order = (unsigned*)malloc(count * sizeof *order);
    for (uint64_t i = 0; i < count; ++i) order[i] = (unsigned)(from + i);
    for (uint64_t i = count; i > 1; --i) {
        const unsigned k = draw((unsigned)i), other = order[i - 1];
        order[i - 1] = order[k];
        order[k] = other;
    }
    watch(regions, n_regions, counts != nullptr);
    first_stamp = stamps + 1;
    for (uint64_t k = 0; k < count && !failed; ++k) {
        const unsigned b = order[k];
        now.block = ++stamps;
        now.epoch = 1;
        sim.block = {b % shape[0], b / shape[0] % shape[1], b / (shape[0] * shape[1])};
        // Poison: memory read before it is written is nan, -1 or true.
        for (int r = 0; r < n_regions; ++r)
            if (regions[r].kind == SHARED) memset(regions[r].at, 0xff, regions[r].bytes);
        watch_block();
        run_block();
    }
    stamps = first_stamp + (uint32_t)count;
    if (!failed && count == all) check_outputs();
    if (counts != nullptr) moved(counts);
    unwatch();
    free(order);
    return failed;
}

const char* sim_error() { return message; }
}
