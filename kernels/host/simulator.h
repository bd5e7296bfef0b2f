// The interface between runtime.cpp (fibers) and race.cpp (checks).
#pragma once
#include <stddef.h>
#include <stdint.h>

struct sim_index { unsigned x, y, z; };
struct sim_state { sim_index thread, block, block_size, grid_size; };

enum Kind : int { INPUT, OUTPUT, WORK, SHARED };

// Memory that a kernel may access, as described by the launcher. `shift`: accesses are distinguished in units of
// 2^shift.
struct Region {
    char* at;
    size_t bytes;
    int kind;
    int shift;
    const char* name;
};

// The running thread, and the time: recorded by race.cpp for each access.
struct Now {
    uint32_t block;     // counted over all launches, from 1
    uint32_t epoch;     // barriers so far
    uint16_t thread;
    uint16_t warp;      // __syncwarps of this thread
    uint16_t fences;    // fences of this thread
    uint16_t met;       // exchanges between lanes since the last barrier
    uint32_t fenced_at; // the epoch of its last fence, from 1
    const char* stack;  // where its own variables live
};

const unsigned MOST_THREADS = 1024;
const size_t STACK = 128 << 10;

// A launch's reads and writes of a region, in bytes: every load and store; and each address once for each interval
// between two synchronisations (barriers, exchanges between lanes) in which any block accesses it.
struct Moved { uint64_t loaded, stored, read, written; };

// Hidden from kernels, so that it is accessed without a table.
#pragma GCC visibility push(hidden)
extern Now now;
extern bool failed;

bool of_the_simulator(const char* at);         // memory of threads besides their stacks
unsigned block_number(uint32_t stamp);         // the blockIdx (counted through) behind Now::block
__attribute__((format(printf, 1, 2))) void fail(const char* format, ...);
[[noreturn]] void leave();                     // give up the launch from inside a thread

void watch(const Region* regions, int count, bool counted);  // before a launch
void watch_block();                            // before each block
void check_outputs();                          // after a launch without errors
void moved(Moved* found);                      // of each region, if it was counted
void unwatch();
#pragma GCC visibility pop
