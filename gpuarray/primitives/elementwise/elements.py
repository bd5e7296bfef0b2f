"""Element rule of bitcasts between elements of different widths.

Floor 2. In: equations. Out: accesses, as in core/element_rules.py.
"""

from __future__ import annotations

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.element import Access
from gpuarray.core.element_rules import ElementRule, Get, Places, has_text, pointwise
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index
from gpuarray.primitives.cuda_rules import from_word, word_of
from gpuarray.primitives.elements import called


def _bitcast(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    old, new = eqn.invars[0].aval, eqn.outvars[0].aval
    # Equal widths: an element at the same place.
    if old.ndim == new.ndim and old.dtype.itemsize == new.dtype.itemsize:
        return pointwise(eqn, number, at, get)
    # The narrower of the two types, as an unsigned integer; low bits come first.
    piece = np.dtype(f"u{min(old.dtype.itemsize, new.dtype.itemsize)}")
    bits = min(dtypes.itemsize_bits(old.dtype), dtypes.itemsize_bits(new.dtype))
    # To narrower elements: shift the wanted piece down.
    if old.ndim < new.ndim:
        word = word_of(old.dtype, "{0}")
        text = from_word(new.dtype, f"({{{piece.name}}})({word} >> {{1}} * {bits}u)")
        return called(eqn, text, [get(0, at[:-1])], [at[-1]])
    # To wider elements: put the pieces together.
    count = old.shape[-1]
    whole = np.dtype(f"u{new.dtype.itemsize}").name
    words = [f"({{{whole}}}){word_of(old.dtype, f'{{{j}}}')} << {j * bits}" for j in range(count)]
    text = from_word(new.dtype, f"({{{whole}}})({' | '.join(words)})")
    return called(eqn, text, [get(0, [*at, Index(constant=j)]) for j in range(count)])


BITCAST = ElementRule(_bitcast, when=has_text)
