"""Device memory and pinned host memory of the stand-in: host memory that is watched.

In: sizes. Out: CuPy's pools and pointers. Addresses of device memory are no addresses of this CPU,
so that touching them from the host ends the process as it should. What is handed out, and what is
given back once all work on it is over, is filled with ones: NaN, -1, True.
"""

from __future__ import annotations

import bisect
import collections
import ctypes
import functools

import numpy as np

from tests.fake_cupy.errors import CUDARuntimeError, OutOfMemoryError
from tests.fake_cupy.world import Use, Work, site, world

UNIT = 512
POISON = 0xFF


class Block:
    """A piece of memory that is handed out, given back, and handed out again."""

    def __init__(self, size: int, address: int | None, device: int | None):
        room = np.empty(size + UNIT, np.uint8)
        start = -room.ctypes.data % UNIT
        self.memory = room[start : start + size]
        self.host = self.memory.ctypes.data
        self.address = self.host if address is None else address
        self.size, self.device = size, device
        self.asked = size  # bytes of this life
        self.life, self.live, self.site = 0, False, ""
        self.machine = world.machine
        self.pending: collections.Counter[int] = collections.Counter()  # uses to come, by life
        self.stale = False  # poison when the last user of an earlier life is done
        self.history: list[tuple[Work, Use]] = []

    def __repr__(self) -> str:
        where = "pinned memory" if self.device is None else f"memory of device {self.device}"
        return f"{self.asked} bytes of {where} taken at {self.site}"

    def hand_out(self, asked: int) -> None:
        self.life, self.live, self.asked = self.life + 1, True, asked
        if not world.idle:
            self.site, self.stale = site(), True
            self.settle()

    def give_back(self) -> None:
        self.live, self.stale = False, True
        if not world.idle:
            self.settle()

    def settle(self) -> None:
        earlier = self.life if self.live else self.life + 1
        if self.stale and not any(life < earlier for life in self.pending):
            self.memory[...] = POISON
            self.stale = False

    def use(self, start: int, stop: int, writes: bool) -> Use:
        return Use(self, self.life, start, stop, writes)

    def used(self, use: Use, work: Work) -> None:
        """Some work was given these bytes: is it ordered with all others?"""
        if not self.live or self.life != use.life:
            world.fault(f"use after free: {work} uses {self}")
        kept = []
        for other, before in self.history:
            again = before.life != use.life
            overlap = before.start < use.stop and use.start < before.stop
            ordered = work.clock.get(id(other.stream), 0) >= other.number
            if (again or (overlap and (use.writes or before.writes))) and not ordered:
                world.fault(f"race: nothing orders {work} after {other}; both use {self}")
            within = use.start <= before.start and before.stop <= use.stop
            replaced = other.stream is work.stream and within and use.writes >= before.writes
            known = world.host.get(id(other.stream), 0) >= other.number
            if not known and not (replaced and not again):
                kept.append((other, before))
        self.history = [*kept, (work, use)]
        self.pending[use.life] += 1

    def over(self, use: Use) -> None:
        self.pending[use.life] -= 1
        if not self.pending[use.life]:
            del self.pending[use.life]
        self.settle()


# ---- addresses ----
def block_at(address: int, nbytes: int = 1) -> Block | None:
    """The memory behind an address that devices reach, if all of the bytes lie in one piece."""
    if (pinned := pinned_at(address, nbytes)) is not None:
        return pinned
    i = bisect.bisect_right(world.blocks, address, key=lambda b: b.address) - 1
    if i < 0 or address + nbytes > world.blocks[i].address + world.blocks[i].size:
        return None
    return world.blocks[i]


def pinned_at(address: int, nbytes: int) -> Block | None:
    for block in world.pinned:
        if block.address <= address and address + nbytes <= block.address + block.size:
            return block
    return None


def view(address: int, nbytes: int) -> np.ndarray:
    """Device memory as the host's bytes."""
    block = block_at(address, nbytes)
    if block is None:
        raise CUDARuntimeError(700)
    start = address - block.address
    return block.memory[start : start + nbytes]


def use_of(address: int, nbytes: int, writes: bool) -> Use:
    """That some work touches device memory; CUDA's own error where there is none."""
    block = block_at(address, nbytes)
    if block is None:
        raise CUDARuntimeError(1)
    start = address - block.address
    if start + nbytes > block.asked:
        world.fault(f"out of bounds: bytes {start} to {start + nbytes} of {block}, at {site()}")
    return block.use(start, start + nbytes, writes)


def _new_block(size: int, device: int) -> Block:
    block = Block(size, world.ends[device], device)
    world.ends[device] += -(-size // UNIT) * UNIT + (1 << 20)  # nothing lies there ever again
    bisect.insort(world.blocks, block, key=lambda b: b.address)
    world.taken[device] += size
    return block


# ---- device memory ----
class BaseMemory:
    """Memory on a device."""

    ptr = 0
    size = 0
    device_id = 0


class Memory(BaseMemory):
    """Memory outside of all pools; giving it back to the system waits for all work."""

    def __init__(self, size: int):
        self.size, self.device_id = size, world.thread.device
        self._block: Block | None = None
        if size:
            with world.lock:
                world.count("allocation")
                if world.taken[self.device_id] + size > world.memory:
                    raise CUDARuntimeError(2)
                self._block = _new_block(size, self.device_id)
                self._block.hand_out(size)
                self.ptr = self._block.address

    def __del__(self):
        block, self._block = getattr(self, "_block", None), None
        if block is not None and block.machine == world.machine:
            with world.lock:
                world.finish(self.device_id)
                block.give_back()
                world.blocks.remove(block)
                world.taken[self.device_id] -= block.size


class UnownedMemory(BaseMemory):
    """Memory that somebody else owns."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1):
        if device_id < 0:
            if ptr == 0:
                raise RuntimeError("UnownedMemory requires explicit device ID for a null pointer.")
            block = block_at(ptr)
            device_id = (
                world.thread.device if block is None or block.device is None else block.device
            )
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class PooledMemory(BaseMemory):
    """Memory that goes back to its pool."""

    def __init__(self, block: Block, pool: MemoryPool, arena: tuple[int, int]):
        assert block.device is not None
        self.ptr, self.size, self.device_id = block.address, block.size, block.device
        self._block, self._pool, self._arena = block, pool, arena

    def free(self) -> None:
        if self.ptr:
            self.ptr = 0
            with world.lock:
                self._pool._give_back(self._block, self._arena)

    __del__ = free


class MemoryPointer:
    """A place in memory."""

    def __init__(self, mem: BaseMemory, offset: int):
        self.mem, self.device_id = mem, mem.device_id
        self.ptr = mem.ptr + offset

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)


class MemoryPool:
    """Free blocks of all devices, each kept for the stream that was current when it was taken."""

    def __init__(self, allocator=None):
        self._machine = 0
        self._fresh()

    def _fresh(self) -> None:
        """Forget the blocks of a machine that was switched off."""
        if self._machine != world.machine:
            self._machine = world.machine
            self._free: dict[tuple[int, int], list[Block]] = {}
            self._used: collections.Counter[int] = collections.Counter()
            self._total: collections.Counter[int] = collections.Counter()
            self._limit: dict[int, int] = {}

    def malloc(self, size: int) -> MemoryPointer:
        with world.lock:
            if size == 0:
                return MemoryPointer(Memory(0), 0)
            self._fresh()
            world.count("allocation")
            device = world.thread.device
            arena = (device, world.current(device))
            block = self._fitting(arena, -(-size // UNIT) * UNIT)
            self._used[device] += block.size
            block.hand_out(size)
            if not world.idle:
                world.some()
            return MemoryPointer(PooledMemory(block, self, arena), 0)

    def _fitting(self, arena: tuple[int, int], size: int) -> Block:
        """The smallest free block that is large enough, the last one that came back; else a new."""
        free = self._free.get(arena, [])
        if free and free[-1].size == size:
            return free.pop()
        fitting = [b for b in free if size <= b.size <= 2 * size]
        if not fitting:
            return self._take(size, arena[0])
        block = min(reversed(fitting), key=lambda b: b.size)
        free.remove(block)
        return block

    def _take(self, size: int, device: int) -> Block:
        limit = self._limit.get(device, 0)

        def fits() -> bool:
            within = not limit or self._total[device] + size <= limit
            return within and world.taken[device] + size <= world.memory

        if not fits():
            self.free_all_blocks()
        if not fits():
            raise OutOfMemoryError(size, self._total[device], limit)
        self._total[device] += size
        return _new_block(size, device)

    def _give_back(self, block: Block, arena: tuple[int, int]) -> None:
        if block.machine != world.machine:
            return
        self._used[arena[0]] -= block.size
        block.give_back()
        self._free.setdefault(arena, []).append(block)

    def free_all_blocks(self, stream=None) -> None:
        with world.lock:
            self._fresh()
            device = world.thread.device
            for arena, blocks in self._free.items():
                if arena[0] != device or (stream is not None and arena[1] != stream.ptr):
                    continue
                if blocks:
                    world.finish(device)  # giving memory back to the system waits for the device
                for block in blocks:
                    world.blocks.remove(block)
                    world.taken[device] -= block.size
                    self._total[device] -= block.size
                blocks.clear()

    def used_bytes(self) -> int:
        return self._used[world.thread.device]

    def free_bytes(self) -> int:
        return self.total_bytes() - self.used_bytes()

    def total_bytes(self) -> int:
        return self._total[world.thread.device]

    def n_free_blocks(self) -> int:
        with world.lock:
            self._fresh()
            free = (f for (device, _), f in self._free.items() if device == world.thread.device)
            return sum(map(len, free))

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        limit = size if fraction is None else int(fraction * world.memory)
        self._limit[world.thread.device] = limit or 0

    def get_limit(self) -> int:
        return self._limit.get(world.thread.device, 0)


# ---- pinned memory ----
class PinnedMemoryPointer:
    """What `alloc_pinned_memory` returns is a ctypes array (of one of these types for each size):
    the only objects of plain Python that other libraries take for memory.
    """

    mem: Block
    ptr: int

    def __int__(self) -> int:
        return self.ptr

    def size(self) -> int:
        return self.mem.size

    def __del__(self):
        block = self.__dict__.get("mem")
        if block is None or block not in world.pinned:
            return
        with world.lock:
            if any(block.pending.values()):
                world.fault(f"freed while a copy is to come: {block}")
            world.pinned.remove(block)
            block.give_back()


@functools.cache
def _pinned_type(size: int) -> type:
    space = {"_type_": ctypes.c_byte, "_length_": size}
    return type("PinnedMemoryPointer", (PinnedMemoryPointer, ctypes.Array), space)


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """Pinned memory of at least so many bytes: CuPy's pool rounds up to powers of two."""
    with world.lock:
        world.count("pinned")
        room = UNIT << max(0, (-(-size // UNIT) - 1).bit_length()) if size else 0
        block = Block(room, None, None)
        block.hand_out(room)
        pointer = _pinned_type(room).from_buffer(block.memory)
        pointer.mem, pointer.ptr = block, block.address
        world.pinned.append(block)
        return pointer
