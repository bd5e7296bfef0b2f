"""Random bits without keys: generators that carry a state, as XLA has them.

Floor 6. In: a state (four uint32 words) and a shape. Out: the next state and bits. Programs
normally use `gpuarray.random`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, canonicalize_shape, operands
from gpuarray.primitives.random.ops import RandomAlgorithm as RandomAlgorithm
from gpuarray.primitives.random.ops import rng_bit_generator_p
from gpuarray.runtime.transfer import placed


def rng_bit_generator(
    key: ArrayLike,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """(next state, bits) of a generator with a state: uint32[4] -> uint32[4], dtype[shape].

    The first two words are the key, the last two a counter. Results belong to an algorithm: they
    are the same here on every machine, but another library's default may be another algorithm.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> state, bits = lax.rng_bit_generator(gnp.zeros(4, "uint32"), (2,))
    >>> state, bits
    (Array([0, 0, 1, 0], dtype=uint32), Array([1713891541, 3781805453], dtype=uint32))
    """
    (key,) = operands("rng_bit_generator", key)
    state, bits = rng_bit_generator_p.bind(
        key,
        shape=canonicalize_shape(shape),
        dtype=dtypes.check_user_dtype(dtype, "rng_bit_generator"),
        algorithm=RandomAlgorithm(algorithm),
        out_sharding=None,
    )
    return state, placed("rng_bit_generator", bits, out_sharding)
