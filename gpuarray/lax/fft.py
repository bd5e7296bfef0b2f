"""Fourier transforms over the last axes.

Floor 6. In: arrays, the sort of transform, the lengths of the axes. Out: the `fft` primitive on a
dtype it takes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.lax.args import ArrayLike, dtype_of, operands
from gpuarray.lax.convert import convert_element_type
from gpuarray.primitives.contract.fft import FftType as FftType
from gpuarray.primitives.contract.fft import fft_p


def _type_of(fft_type) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    if isinstance(fft_type, str):
        if fft_type.upper() in FftType.__members__:
            return FftType[fft_type.upper()]
        raise ValueError(
            f"Unknown FFT type '{fft_type}': expected one of {', '.join(FftType.__members__)}"
        )
    raise TypeError(
        f"Unknown FFT type value '{fft_type}': expected a lax.FftType or one of "
        f"{', '.join(FftType.__members__)}"
    )


@functools.partial(jit, static_argnums=(1, 2))
def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The discrete Fourier transform over the last len(fft_lengths) axes.

    FFT and IFFT keep the shape; RFFT maps n real numbers to n // 2 + 1 complex ones along the last
    axis, and IRFFT is its inverse. X[k] = sum_j x[j] exp(-2πi jk / n); the inverse divides by n.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.fft(gnp.array([1., 2., 3., 4.]), "RFFT", (4,))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    kind = _type_of(fft_type)
    lengths = util.indices(fft_lengths)
    (x,) = operands("fft", x)
    dtype = dtype_of(x)
    # A real transform takes floats, all others complex numbers; the precision stays.
    if kind is FftType.RFFT:
        if dtypes.kind_of(dtype) == "c":
            raise ValueError(
                f"only real valued inputs supported for rfft, got {dtype.name}. Use fft, or take "
                "the real part."
            )
        if dtypes.kind_of(dtype) in "biu":
            # The width of an integer chooses the precision: 64 bits become double, others single.
            x = convert_element_type(x, np.float64 if dtype.itemsize == 8 else np.float32)
    elif dtypes.kind_of(dtype) != "c":
        x = convert_element_type(x, np.complex128 if dtype.itemsize == 8 else np.complex64)
    # No axes: the identity.
    out: Any = fft_p.bind(x, fft_type=kind, fft_lengths=lengths) if lengths else x
    return out
