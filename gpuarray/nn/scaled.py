"""Products of block-scaled matrices: each block of narrow numbers in a row shares one scale.

Floor 6. In: narrow arrays with their scales, or wide ones and how to quantize them. Out: wide
Arrays. The numbers are exactly those of the formats; the product is that of the dequantized values.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes, promotion
from gpuarray.core.value import Array

_E4M3, _E8M0, _E2M1 = dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu, dtypes.float4_e2m1fn


@dataclasses.dataclass
class BlockScaleConfig:
    """How an operand is quantized: blocks of `block_size` numbers of `data_type` share a scale.

    Attributes
    ----------
    global_scale :
        One more scale, of the whole operand, for scale types with a small range.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Array | None
    infer_only: bool


def get_scaled_dot_general_config(
    mode: Literal["nvfp4", "mxfp8"], global_scale: Array | None = None
) -> BlockScaleConfig:
    """The BlockScaleConfig of "mxfp8" (8 bits, blocks of 32) or "nvfp4" (4 bits, blocks of 16).

    >>> get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode == "nvfp4":
        # NVFP4: blocks of 16 E2M1 numbers, a scale in E4M3 each, and one global scale.
        scale = gnp.ones((1,), np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, _E2M1, _E4M3, scale, False)
    if mode == "mxfp8":
        if global_scale is not None:
            raise ValueError(
                f"mxfp8 has no global scale, got {global_scale!r}: leave it out, or take nvfp4."
            )
        # MXFP8: blocks of 32 E4M3 numbers, a power of two each.
        return BlockScaleConfig(mode, 32, _E4M3, _E8M0, None, False)
    raise ValueError(f"Unsupported mode: {mode}. Expected 'nvfp4' or 'mxfp8'.")


def scaled_matmul(
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    rhs_scales: Array,
    preferred_element_type: Any = np.float32,
) -> Array:
    """lhs @ rhs^T for each batch, every block of a row first multiplied by its scale.

    Shape contract: lhs (B, M, K), rhs (B, N, K), scales (B, M, K/block) and (B, N, K/block) -> (B,
    M, N).

    >>> import gpuarray.numpy as gnp
    >>> two = gnp.full((1, 1, 1), 2.0)
    >>> scaled_matmul(gnp.ones((1, 1, 4)), gnp.ones((1, 2, 4)), two, gnp.ones((1, 2, 1)))
    Array([[[8., 8.]]], dtype=float32)
    """
    a, b, a_scales, b_scales = (gnp.asarray(x) for x in (lhs, rhs, lhs_scales, rhs_scales))
    if any(x.ndim != 3 for x in (a, b, a_scales, b_scales)):
        raise ValueError("scaled_matmul requires all inputs to be 3-dimensional arrays")
    for (x, y), what in (((a, b), "inputs a and b"), ((a_scales, b_scales), "scales")):
        if (x.shape[0], x.shape[2]) != (y.shape[0], y.shape[2]):
            raise ValueError(
                f"scaled_matmul requires {what} to have matching batch (B) and contract (K) "
                f"dimensions, but got shapes {x.shape} and {y.shape}"
            )
    dtype = dtypes.check_user_dtype(preferred_element_type, "scaled_matmul")
    # Sums run in single precision at least, and are rounded once at the end.
    wide = promotion.wider(dtype, np.float32)
    a, b = _dequantized("lhs", a, a_scales, wide), _dequantized("rhs", b, b_scales, wide)
    product = lax.dot_general(a, b, (((2,), (2,)), ((0,), (0,))), preferred_element_type=wide)
    return product.astype(dtype)


def _dequantized(name: str, x: Array, scales: Array, dtype: Any) -> Array:
    batch, rows, length = x.shape
    blocks = scales.shape[2]
    if scales.shape[:2] != (batch, rows) or not blocks or length % blocks:
        raise ValueError(
            f"scaled_matmul requires scales of shape (B, rows, K / block): {name} of shape "
            f"{x.shape} does not go with scales of shape {scales.shape}"
        )
    # Each block times its scale, exactly in the wide type.
    blocked = x.astype(dtype).reshape(batch, rows, blocks, length // blocks)
    return (blocked * scales.astype(dtype)[..., None]).reshape(batch, rows, length)


def scaled_dot_general(
    lhs,
    rhs,
    dimension_numbers,
    preferred_element_type: Any = np.float32,
    configs: list[BlockScaleConfig] | None = None,
    implementation: Literal["cudnn"] | None = None,
) -> Array:
    """lax.dot_general of quantized operands: lhs as the first config says, rhs as the second.

    Shape contract: that of `lax.dot_general`; with configs, the contracted length is a multiple of
    the block size.
    Without configs nothing is quantized.

    >>> import gpuarray.numpy as gnp
    >>> by_rows = (((1,), (1,)), ((), ()))
    >>> configs = [get_scaled_dot_general_config("mxfp8")] * 3
    >>> scaled_dot_general(gnp.ones((1, 32)), gnp.ones((2, 32)), by_rows, configs=configs)
    Array([[32., 32.]], dtype=float32)
    """
    if configs is None:
        if preferred_element_type is not None:
            preferred_element_type = dtypes.check_user_dtype(
                preferred_element_type, "scaled_dot_general"
            )
        return lax.dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    if implementation not in (None, "cudnn"):
        raise ValueError(f"Unsupported implementation option: {implementation}. Pass None.")
    (contract, batch), a, b = dimension_numbers, gnp.asarray(lhs), gnp.asarray(rhs)
    wanted = "a configuration for each operand, and perhaps for the result"
    if len(util.elements(configs, wanted)) < 2:
        raise util.wrong_type(configs, wanted)
    a_config, b_config = configs[:2]
    # Both as [batch, rows, contracted], from which blocks are cut.
    a3, a_free = _three_axes(a, contract[0], batch[0])
    b3, b_free = _three_axes(b, contract[1], batch[1])
    product = scaled_matmul(
        *_interleaved(_quantized("lhs", a3, a_config), _quantized("rhs", b3, b_config)),
        preferred_element_type,
    )
    for config in (a_config, b_config):
        if config.global_scale is not None:
            # The divisor of the operand before it was quantized.
            product = product * gnp.asarray(config.global_scale).astype(product.dtype)
    return product.reshape(*(a.shape[i] for i in batch[0]), *a_free, *b_free)


def _interleaved(lhs, rhs):
    return lhs[0], rhs[0], lhs[1], rhs[1]


def _three_axes(x: Array, contract, batch) -> tuple[Array, list[int]]:
    """x as (batch, free, contracted), and the lengths of its free axes."""
    free = [i for i in range(x.ndim) if i not in contract and i not in batch]
    groups = [[x.shape[i] for i in group] for group in (batch, free, contract)]
    ordered = gnp.transpose(x, (*batch, *free, *contract))
    return ordered.reshape([math.prod(g) for g in groups]), groups[1]


def _quantized(name: str, x: Array, config: BlockScaleConfig) -> tuple[Array, Array]:
    """Narrow numbers (B, rows, K) and the scales of their blocks (B, rows, K / block)."""
    batch, rows, length = x.shape
    size = config.block_size
    if length % size:
        raise ValueError(
            f"scaled_dot_general: the contracted length {length} of {name} is not a multiple of "
            f"the block size {size} of {config.mode}. Pad it with zeros."
        )
    # From here on the last axis is a block.
    x = x.astype(np.float32).reshape(batch, rows, length // size, size)
    if config.global_scale is not None:
        x = x / gnp.asarray(config.global_scale)
    largest = float(dtypes.finfo(config.data_type).max)
    # The largest number of a block becomes the largest that the format holds.
    wanted = gnp.max(gnp.abs(x), axis=-1, keepdims=True, initial=0.0) / largest
    scales = _power_of_two(wanted) if config.mode == "mxfp8" else _rounded(wanted, config)
    exact = scales.astype(np.float32)
    # A block whose scale underflows to 0 contains only values that count as 0.
    scaled = gnp.where(exact == 0, 0.0, x / exact)
    # Clipped, since out of range the formats have nan or infinity.
    data = gnp.clip(scaled, -largest, largest).astype(config.data_type)
    return data.reshape(batch, rows, length), scales[..., 0]


def _rounded(wanted: Array, config: BlockScaleConfig) -> Array:
    largest = float(dtypes.finfo(config.scale_type).max)
    return gnp.clip(wanted, 0.0, largest).astype(config.scale_type)


def _power_of_two(wanted: Array) -> Array:
    """The smallest power of two that is not below a positive number, as float8_e8m0fnu."""
    # Rounded up to a power of two, by its exponent bits.
    bits = lax.bitcast_convert_type(wanted, np.uint32)
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    # Below the normal numbers, 2**-127 is as small as the format goes; 254 is as large.
    above = gnp.where(exponent == 0, fraction > 0x400000, (fraction > 0) & (exponent < 254))
    exponent = exponent + above.astype(exponent.dtype)
    return lax.bitcast_convert_type(exponent.astype(np.uint8), _E8M0)
