// Checks every access of a kernel: in bounds, aligned, initialised, and ordered with those of other threads.
//
// Kernels are compiled with -fsanitize=thread, which calls a hook before each access; the hooks are these, no sanitizer
// library is linked. The model of order is CUDA's: __syncthreads orders the threads of a block, __syncwarp those of a
// warp. Between blocks nothing does, except what a block wrote, fenced and then announced by an atomic that another block
// reads, fencing in its turn: the ticket with which the last block to finish collects the others' results.
#include "simulator.h"

#include <string.h>
#include <sys/mman.h>

#include <vector>

namespace {
struct Mark {
    uint32_t block, epoch;
    uint16_t thread, warp, fences;
};
struct Cell {
    Mark write, read, other;  // other: a reader that is not ordered before `read`
    bool by_atomic;
};
// A set of numbers. Not the C++ library's: its header takes longer to compile than all of this file.
class Numbers {
    std::vector<uint64_t> slots;  // 0: free; else a number and one
    size_t many = 0;

    uint64_t& slot(uint64_t number) {
        size_t i = (number * 0x9e3779b97f4a7c15) >> 32;
        while (slots[i &= slots.size() - 1] != 0 && slots[i] != number + 1) ++i;
        return slots[i];
    }

public:
    // Adds a number; returns whether it was not there.
    bool insert(uint64_t number) {
        if (2 * many >= slots.size()) {
            std::vector<uint64_t> old(slots.empty() ? 64 : 4 * slots.size());  // a power of two
            old.swap(slots);
            for (uint64_t kept : old)
                if (kept != 0) slot(kept - 1) = kept;
        }
        uint64_t& found = slot(number);
        if (found != 0) return false;
        found = number + 1;
        ++many;
        return true;
    }
};
struct Watched : Region {
    Cell* cells;   // one for 2^unit bytes
    size_t mapped;
    int unit;
    bool touched;  // a cell is
    Moved moved;
    Numbers seen[2];  // reads and writes: a cell, and when
};
struct Ticket {  // an atomic after a fence
    const void* at;
    Mark by;
};
struct Seen {  // an atomic of this block: it has seen the tickets before it
    const void* at;
    size_t tickets;
    Mark by;
    uint32_t fenced_at;  // when the same thread fenced after it
};

struct Place {
    const char* at;
    size_t bytes;
};

std::vector<Watched> regions;
std::vector<Place> places;  // of the regions, and one that is empty
std::vector<Ticket> tickets;
std::vector<Seen> seen;
size_t last;
bool counting;

Mark mark() { return {now.block, now.epoch, now.thread, now.warp, now.fences}; }

// Whether another block's access is announced to this thread.
bool announced(const Mark& m) {
    for (const Seen& s : seen) {
        const bool own = s.by.thread == now.thread && s.fenced_at != 0;
        const bool passed_on = s.by.epoch < now.epoch;  // there is a barrier in between
        const bool fenced = (s.fenced_at != 0 && s.fenced_at < now.epoch) || now.fenced_at > s.by.epoch;
        if (!own && !(passed_on && fenced)) continue;
        for (size_t k = 0; k < s.tickets; ++k) {
            const Ticket& t = tickets[k];
            if (t.at != s.at || t.by.block != m.block) continue;
            if (m.epoch < t.by.epoch || (m.thread == t.by.thread && m.fences < t.by.fences)) return true;
        }
    }
    return false;
}

// Whether an access is over, for certain, when this thread makes its own.
bool before(const Mark& m) {
    if (m.block != now.block) return announced(m);
    if (m.thread == now.thread || m.epoch != now.epoch) return true;
    return m.thread / 32 == now.thread / 32 && m.warp != now.warp;
}

void race(const char* what, const char* with, const Mark& m, const Watched& r, size_t offset) {
    fail("race: %s of %s at byte %zu by block %u thread %u is not ordered with the %s by block %u thread %u", what, r.name,
         offset, block_number(now.block), now.thread, with, block_number(m.block), m.thread);
}

void outside(const char* at, size_t bytes, bool writes) {
    const Watched* near = nullptr;
    size_t least = ~(size_t)0;
    for (const Watched& r : regions) {
        const size_t away = at < r.at ? (size_t)(r.at - at) : at >= r.at + r.bytes ? (size_t)(at - r.at - r.bytes) : 0;
        if (away < least) least = away, near = &r;
    }
    if (near == nullptr || least > 1 << 20)
        return fail("out of bounds: %zu bytes are %s at %p, far from all memory the kernel was given, by block %u thread %u",
                    bytes, writes ? "written" : "read", (const void*)at, block_number(now.block), now.thread);
    fail("out of bounds: %zu bytes are %s at byte %td of %s, which has %zu, by block %u thread %u", bytes,
         writes ? "written" : "read", at - near->at, near->name, near->bytes, block_number(now.block), now.thread);
}

void misaligned(const Watched& r, const char* at, size_t bytes) {
    fail("misaligned: byte %td of %s is read or written as one of %zu aligned bytes by block %u thread %u", at - r.at, r.name,
         bytes, block_number(now.block), now.thread);
}

// Most accesses are in the region of the previous one; for the others only the addresses are read, which are close
// together.
Watched* region_of(const char* at) {
    if ((size_t)(at - places[last].at) < places[last].bytes) return &regions[last];
    for (size_t i = 0; i < regions.size(); ++i)
        if ((size_t)(at - places[i].at) < places[i].bytes) return &regions[last = i];
    return nullptr;
}

// Cells are as large as all accesses so far allow, and never smaller than the region's elements: most kernels come to 16
// bytes at a time, or to 4.
void divide(Watched& r, int unit) {
    const int parts = r.unit - unit;
    for (size_t i = r.touched ? ((r.bytes - 1) >> r.unit) + 1 : 0; i-- > 0;) {
        const Cell whole = r.cells[i];
        for (size_t k = 0; k < (size_t)1 << parts; ++k) r.cells[(i << parts) + k] = whole;
    }
    r.unit = unit;
}

void check_cell(Watched& r, size_t offset, bool writes, bool atomic) {
    Cell& c = r.cells[offset >> r.unit];
    const char* what = atomic ? "the atomic" : writes ? "the write" : "the read";
    // Shared memory begins anew in each block.
    if (r.kind == SHARED && c.write.block != now.block) c.write.block = 0;
    if (r.kind == SHARED && c.read.block != now.block) c.read.block = c.other.block = 0;
    if (!writes && c.write.block == 0 && (r.kind == SHARED || r.kind == OUTPUT))
        return fail("uninitialised: block %u thread %u reads byte %zu of %s, which nobody wrote",
                    block_number(now.block), now.thread, offset, r.name);
    if (c.write.block != 0 && !(atomic && c.by_atomic) && !before(c.write))
        return race(what, c.by_atomic ? "atomic" : "write", c.write, r, offset);
    if (writes && c.read.block != 0 && !before(c.read)) return race(what, "read", c.read, r, offset);
    if (writes && c.other.block != 0 && !before(c.other)) return race(what, "read", c.other, r, offset);
    if (writes) {
        c.write = mark();
        c.by_atomic = atomic;
    } else {
        const bool keep = c.other.block != 0 && c.other.block != now.block;
        if (c.read.block != 0 && !keep && !before(c.read)) c.other = c.read;
        c.read = mark();
    }
}

void count(Watched& r, size_t start, size_t bytes, bool writes) {
    (writes ? r.moved.stored : r.moved.loaded) += bytes;
    const size_t unit = (size_t)1 << r.shift;
    // Barriers are counted by the block and exchanges since then by the lane: in all blocks alike.
    const uint64_t when = (uint64_t)(now.epoch & 0xfff) << 12 | (now.met & 0xfff);
    for (size_t o = start & ~(unit - 1); o < start + bytes; o += unit)
        if (r.seen[writes].insert((uint64_t)(o >> r.shift) << 24 | when))
            (writes ? r.moved.written : r.moved.read) += unit;
}

void check(const void* p, size_t bytes, bool writes, bool atomic, bool aligned) {
    if (failed) leave();
    const char* at = (const char*)p;
    if ((size_t)(at - now.stack) < STACK) return;
    Watched* r = region_of(at);
    if (r == nullptr) {
        if (of_the_simulator(at)) return;
        outside(at, bytes, writes);
    } else if (at + bytes > r->at + r->bytes) {
        outside(at, bytes, writes);
    } else if (aligned && ((uintptr_t)at & (bytes - 1))) {  // a power of two: a division takes longer than all the rest
        misaligned(*r, at, bytes);
    } else if (writes && r->kind == INPUT) {
        fail("write to an input: byte %td of %s by block %u thread %u", at - r->at, r->name, block_number(now.block),
             now.thread);
    } else {
        const size_t start = (size_t)(at - r->at);
        if (r->kind != INPUT) {  // memory that is never written needs no order
            const int shared = __builtin_ctzll(start | bytes);
            if (shared < r->unit && r->unit > r->shift) divide(*r, shared > r->shift ? shared : r->shift);
            r->touched = true;
            const size_t unit = (size_t)1 << r->unit;
            for (size_t o = start & ~(unit - 1); o < start + bytes && !failed; o += unit) check_cell(*r, o, writes, atomic);
        }
        if (counting && r->kind != SHARED) count(*r, start, bytes, writes);
        if (counting && r->kind != SHARED && atomic) count(*r, start, bytes, false);
    }
    if (failed) leave();
}
}  // namespace

void watch(const Region* given, int many, bool counted) {
    tickets.clear();
    last = 0;
    counting = counted;
    for (int i = 0; i < many; ++i) {
        Watched r;
        r.moved = {};
        (Region&)r = given[i];
        r.mapped = ((r.bytes >> r.shift) + 17) * sizeof(Cell);
        // Untouched pages cost nothing, so a sparse buffer of many gigabytes can be watched; only its unit is coarser.
        r.unit = r.bytes < 1 << 24 && r.shift < 4 ? 4 : r.shift;
        r.touched = false;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* memory = mmap(nullptr, r.mapped, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED) return fail("no memory to watch the %zu bytes of %s", r.bytes, r.name);
        r.cells = (Cell*)memory;
        regions.push_back(r);
        places.push_back({r.at, r.bytes});
    }
    places.push_back({nullptr, 0});
}

void watch_block() { seen.clear(); }

void check_outputs() {
    for (const Watched& r : regions)
        for (size_t i = 0; r.kind == OUTPUT && i << r.unit < r.bytes; ++i)
            if (r.cells[i].write.block == 0) return fail("never written: byte %zu of %s", i << r.unit, r.name);
}

void moved(Moved* found) {
    for (const Watched& r : regions) *found++ = r.moved;
}

void unwatch() {
    for (const Watched& r : regions) munmap(r.cells, r.mapped);
    regions.clear();
    places.clear();
}

extern "C" {
void sim_fence() {
    ++now.fences;
    now.fenced_at = now.epoch;
    for (Seen& s : seen)
        if (s.by.thread == now.thread && s.fenced_at == 0) s.fenced_at = now.epoch;
}

void sim_atomic(void* at, unsigned bytes) {
    check(at, bytes, true, true, true);
    seen.push_back({at, tickets.size(), mark(), 0});
    if (now.fences) tickets.push_back({at, mark()});
}

// ---- the hooks ----
#define HOOKS(n)                                                                          \
    void __tsan_read##n(void* p) { check(p, n, false, false, true); }                     \
    void __tsan_write##n(void* p) { check(p, n, true, false, true); }                     \
    void __tsan_unaligned_read##n(void* p) { check(p, n, false, false, false); }          \
    void __tsan_unaligned_write##n(void* p) { check(p, n, true, false, false); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
void __tsan_read_range(void* p, size_t n) { check(p, n, false, false, false); }
void __tsan_write_range(void* p, size_t n) { check(p, n, true, false, false); }
void* __tsan_memcpy(void* to, const void* from, size_t n) {
    check(from, n, false, false, false);
    check(to, n, true, false, false);
    return memcpy(to, from, n);
}
void* __tsan_memmove(void* to, const void* from, size_t n) {
    check(from, n, false, false, false);
    check(to, n, true, false, false);
    return memmove(to, from, n);
}
void* __tsan_memset(void* to, int value, size_t n) {
    check(to, n, true, false, false);
    return memset(to, value, n);
}
// Copies of whole structs, which some compilers write as calls (hostcc.py has the linker name them so).
void* __wrap_memcpy(void* to, const void* from, size_t n) { return __tsan_memcpy(to, from, n); }
void* __wrap_memmove(void* to, const void* from, size_t n) { return __tsan_memmove(to, from, n); }
void* __wrap_memset(void* to, int value, size_t n) { return __tsan_memset(to, value, n); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
// Arrays whose length the compiler knows, registers and shared memory alike (-fsanitize=bounds).
void __ubsan_handle_out_of_bounds(void*, void* index) {
    fail("out of bounds: index %zd of an array whose length is known, by block %u thread %u", (ptrdiff_t)index,
         block_number(now.block), now.thread);
    leave();
}
// Pointers to several elements, which the compiler may read one by one on a CPU (-fsanitize=alignment), and whole
// vectors beside an array whose length it knows (-fsanitize=object-size): of those, no alignment is asked.
struct Mismatch {
    const char* file;
    unsigned line, column;
    void* type;
    unsigned char log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(const Mismatch* found, const char* at) {
    size_t alignment = (size_t)1 << found->log_alignment;
    if ((size_t)at % alignment == 0)
        fail("out of bounds: beside memory whose size is known, by block %u thread %u", block_number(now.block),
             now.thread);
    else if (const Watched* r = region_of(at)) misaligned(*r, at, alignment);
    else fail("misaligned: address %p", (const void*)at);
    leave();
}
}
