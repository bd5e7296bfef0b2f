"""Machine code of kernels: how many instructions each part of a multiprocessor executes.

Floor 4. In: a cubin, as NVRTC makes it. Out: the `Instructions` of each kernel in it. No GPU and no
disassembler is needed: of each instruction, which has 16 bytes since Volta, only the operation is
read, and how wide an access is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from gpuarray.compiler.explain.grades import Instructions

# The low 9 bits of an instruction are its operation, the 3 above them the kind of its operands (a
# register, a constant, a number in the instruction).
_OPERATION = 0x1FF
#: Integers, logic, comparisons and choices, of floats too, and conversions to 16 bits.
_LOGIC = [
    0x003, 0x007, 0x008, 0x009, 0x00A, 0x00B, 0x00C, 0x010, 0x011, 0x012, 0x016, 0x019, 0x01C,
    0x036, 0x03E, 0x045, 0x046, 0x048,
]  # fmt: skip
#: Square roots, exponentials and kin, other conversions, and counts of bits.
_SPECIAL = [0x100, 0x101, 0x102, 0x105, 0x106, 0x107, 0x108, 0x109, 0x110, 0x112]
#: Doubles: comparison, multiply-add, product, sum.
_DOUBLES = [0x02A, 0x02B, 0x028, 0x029]
#: Shared memory, and what the threads of a warp tell one another.
_SHARED = [0x184, 0x188, 0x189, 0x18C]
#: Loads and stores of memory, those of local memory, and no operation.
_MEMORY, _LOCAL, _NOTHING = [0x180, 0x181, 0x185, 0x186], [0x183, 0x187], 0x118
#: How an access says that it is of 16 bytes.
_WIDE = 6


def instructions(binary: bytes) -> dict[str, Instructions]:
    """The instructions of each kernel of a cubin, by name."""
    return {name: _counted(code) for name, code in _texts(binary)}


def _counted(code: np.ndarray) -> Instructions:
    which, sizes = code[:, 0] & _OPERATION, code[:, 1] >> 9 & 7

    def many(kinds: list[int], among: np.ndarray | bool = True) -> int:
        return int((np.isin(which, kinds) & among).sum())

    return Instructions(
        total=int((which != _NOTHING).sum()),
        accesses=many(_MEMORY),
        wide=many(_MEMORY, sizes == _WIDE),
        local=many(_LOCAL),
        logic=many(_LOGIC),
        special=many(_SPECIAL),
        doubles=many(_DOUBLES),
        shared=many(_SHARED),
    )


def _texts(elf: bytes) -> Iterator[tuple[str, np.ndarray]]:
    """The name of each kernel of a cubin, and its instructions, as two words of 8 bytes each."""
    (start,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size) for i in range(count)]
    for section in sections:
        at = sections[names][4] + section[0]
        name = elf[at : elf.index(b"\0", at)].decode()
        if name.startswith(".text."):
            words = np.frombuffer(elf, "<u8", section[5] // 8, section[4]).reshape(-1, 2)
            yield name.removeprefix(".text."), words
