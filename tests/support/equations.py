"""Parameters of equations whose parameters are many, as plain as they get.

In: what a test is about. Out: the other parameters too.
"""

from __future__ import annotations

import numpy as np

import gpuarray as ga
from gpuarray.core.graph import Graph
from gpuarray.primitives.contract.convolution import ConvDimensionNumbers
from gpuarray.primitives.contract.ragged import RaggedDotDimensionNumbers
from gpuarray.primitives.indexing.shapes import GatherDimensionNumbers, GatherScatterMode

_SPEC = (0, 1, 2, 3)


def conv(features: int = 1, batches: int = 1, spec=None) -> dict:
    numbers = ConvDimensionNumbers(*(spec or (_SPEC,) * 3))
    return {
        "window_strides": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "dimension_numbers": numbers,
        "feature_group_count": features,
        "batch_group_count": batches,
        "precision": None,
        "preferred_element_type": None,
    }


def window(**more) -> dict:
    """Windows along the second of three axes."""
    return {
        "window_dimensions": (1, 2, 1),
        "window_strides": (1, 1, 1),
        "padding": ((0, 0), (0, 0), (0, 0)),
        "base_dilation": (1, 1, 1),
        "window_dilation": (1, 1, 1),
    } | more


def ragged(lc, rc, lb, rb, ragged, group=()) -> dict:
    numbers = RaggedDotDimensionNumbers(((lc, rc), (lb, rb)), (ragged,), group)
    return {
        "ragged_dot_dimension_numbers": numbers,
        "precision": None,
        "preferred_element_type": None,
        "group_offset": None,
    }


def dot(lc, rc, out=None) -> dict:
    return {
        "dimension_numbers": ((lc, rc), ((), ())),
        "precision": None,
        "preferred_element_type": out,
        "out_sharding": None,
    }


def lookup(mode: GatherScatterMode, fill=None) -> dict:
    return {
        "dimension_numbers": GatherDimensionNumbers((1,), (0,), (0,)),
        "slice_sizes": (1, 3),
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": mode,
        "fill_value": fill,
    }


def adds() -> Graph:
    f32 = np.float32(0)
    return ga.make_jaxpr(lambda a, b: a + b)(f32, f32)
