// What runtime.cpp (fibers) and race.cpp (checks) know of one another.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct sim_index { unsigned x, y, z; };
struct sim_state { sim_index thread, block, block_size, grid_size; };

enum Kind : int { INPUT, OUTPUT, WORK, SHARED };

// Memory that a kernel may touch, as the launcher describes it. `shift`: accesses are told apart in units of 2^shift.
struct Region {
    char* at;
    size_t bytes;
    int kind;
    int shift;
    const char* name;
};

// The thread that runs now, and when: what race.cpp writes down of an access.
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

// What a launch reads and writes of a region, in bytes: every load and store; and each place once for each time between
// two meetings of threads (barriers, exchanges between lanes) in which any block comes to it.
struct Moved { uint64_t loaded, stored, read, written; };

// Kernels do not see what follows, so that it is reached without a table.
#pragma GCC visibility push(hidden)
extern Now now;
extern bool failed;

bool of_the_simulator(const char* at);         // memory of threads beside their stacks
unsigned block_number(uint32_t stamp);         // the blockIdx (counted through) behind Now::block
__attribute__((format(printf, 1, 2))) void fail(const char* format, ...);
[[noreturn]] void leave();                     // give up the launch from inside a thread

void watch(const Region* regions, int count, bool counted);  // before a launch
void watch_block();                            // before each block
void check_outputs();                          // after a launch that found nothing
void moved(Moved* found);                      // of each region, if it was counted
void unwatch();
#pragma GCC visibility pop
