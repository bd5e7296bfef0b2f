"""Samples of products, convolutions, factorisations, solvers and Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.primitives.contract.convolution import ConvDimensionNumbers
from gpuarray.primitives.contract.fft import FftType
from gpuarray.primitives.contract.ragged import RaggedDotDimensionNumbers
from tests.samples import Operands, Table, positive_definite, triangular

EXACT = ["float32", "float64", "complex64", "complex128"]  # what LAPACK has

SAMPLES: Table = {}


def add(name: str, operands: Operands, domain: Any = None, **params) -> None:
    SAMPLES.setdefault(name, []).append((operands, params, domain))


# ---- products ----

# lhs, rhs, ((contracting lhs, rhs), (batch lhs, rhs))
_DOTS: list[tuple] = [
    ((), (), (((), ()), ((), ()))),
    ((3,), (3,), (((0,), (0,)), ((), ()))),
    ((0,), (0,), (((0,), (0,)), ((), ()))),
    ((1, 1), (1, 1), (((1,), (0,)), ((), ()))),
    ((3, 4), (4, 5), (((1,), (0,)), ((), ()))),
    ((4, 3), (5, 4), (((0,), (1,)), ((), ()))),
    ((0, 4), (4, 2), (((1,), (0,)), ((), ()))),
    ((3, 0), (0, 2), (((1,), (0,)), ((), ()))),
    ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    ((2, 3, 4, 5), (4, 2, 5, 3), (((3, 1), (2, 3)), ((0,), (1,)))),
    ((2, 3), (4,), (((), ()), ((), ()))),
]
for _lhs, _rhs, _numbers in _DOTS:
    for _kind in (
        "float32",
        "bfloat16",
        "float16",
        "int32",
        "uint8",
        "bool",
        "complex64",
        "float64",
    ):
        if _kind == "float32" or len(_lhs) in (2, 4):
            add(
                "dot_general",
                [(_lhs, _kind), (_rhs, _kind)],
                dimension_numbers=_numbers,
                precision=None,
                preferred_element_type=dtypes.as_dtype(_kind),
                out_sharding=None,
            )
for _kind, _wanted in (("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32")):
    add(
        "dot_general",
        [((3, 4), _kind), ((4, 5), _kind)],
        dimension_numbers=(((1,), (0,)), ((), ())),
        precision=None,
        preferred_element_type=dtypes.as_dtype(_wanted),
        out_sharding=None,
    )


def _counts(of: int):
    """Group sizes that add up to `of`."""

    def draw(rng, shape, dtype):
        cuts = sorted(rng.integers(0, of + 1, shape[-1] - 1))
        return [b - a for a, b in zip([0, *cuts], [*cuts, of], strict=True)]

    return draw


for _lhs, _rhs, _dot, _ragged, _group, _of in [
    ((6, 4), (3, 4, 5), (((1,), (1,)), ((), ())), (0,), (0,), 6),
    ((0, 4), (3, 4, 5), (((1,), (1,)), ((), ())), (0,), (0,), 0),
    ((1, 1), (1, 1, 1), (((1,), (1,)), ((), ())), (0,), (0,), 1),
    ((4, 6), (6, 5), (((1,), (0,)), ((), ())), (1,), (), 6),
]:
    for _kind in ("float32", "bfloat16"):
        add(
            "ragged_dot_general",
            [(_lhs, _kind), (_rhs, _kind), ((3 if _of != 1 else 1,), "int32")],
            [None, None, _counts(_of)],
            ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(_dot, _ragged, _group),
            precision=None,
            preferred_element_type=dtypes.as_dtype(_kind),
            group_offset=None,
        )

_PLAIN = ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))
_LAST = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
# lhs, rhs, axes, strides, padding, dilations of lhs and rhs, feature groups, batch groups
_CONVOLUTIONS: list[tuple] = [
    ((2, 3, 5, 6), (4, 3, 2, 3), _PLAIN, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1),
    ((2, 5, 6, 3), (2, 3, 3, 4), _LAST, (2, 1), ((1, 0), (1, 1)), (1, 1), (1, 1), 1, 1),
    ((2, 4, 5, 6), (4, 2, 2, 2), _PLAIN, (1, 2), ((0, 1), (0, 0)), (1, 1), (2, 1), 2, 1),
    ((2, 3, 4, 4), (4, 3, 2, 2), _PLAIN, (1, 1), ((-1, 0), (1, 2)), (2, 3), (1, 1), 1, 1),
    ((4, 3, 5, 5), (4, 3, 2, 2), _PLAIN, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 2),
    ((1, 1, 1, 1), (1, 1, 1, 1), _PLAIN, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1),
    ((0, 3, 5, 6), (4, 3, 2, 3), _PLAIN, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1),
]
for _lhs, _rhs, _axes, _strides, _padding, _left, _right, _features, _batches in _CONVOLUTIONS:
    for _kind in ("float32", "bfloat16", "int32", "complex64"):
        if _kind == "float32" or _lhs == (2, 3, 5, 6):
            add(
                "conv_general_dilated",
                [(_lhs, _kind), (_rhs, _kind)],
                window_strides=_strides,
                padding=_padding,
                lhs_dilation=_left,
                rhs_dilation=_right,
                dimension_numbers=ConvDimensionNumbers(*_axes),
                feature_group_count=_features,
                batch_group_count=_batches,
                precision=None,
                preferred_element_type=dtypes.as_dtype(_kind),
            )

# ---- factorisations ----

for _kind in EXACT:
    _wide = _kind != "float32"
    for _shape in [(2, 4, 4)] if _wide else [(0, 0), (1, 1), (4, 4), (2, 3, 3), (0, 3, 3)]:
        _one: Operands = [(_shape, _kind)]
        add("cholesky", _one, positive_definite)
        add("eigh", _one, lower=True, sort_eigenvalues=True, subset_by_index=None, algorithm=None)
        add("hessenberg", _one)
        add(
            "schur",
            _one,
            compute_schur_vectors=True,
            sort_eig_vals=False,
            select_callable=None,
        )
        for _vectors, _derivs in ((True, False), (False, False), (True, True)):
            add(
                "eig",
                _one,
                compute_left_eigenvectors=_vectors,
                compute_right_eigenvectors=_vectors,
                enable_eigvec_derivs=_derivs,
                implementation=None,
            )
        if 0 not in _shape[1:]:
            add("tridiagonal", _one, positive_definite, lower=True)
    for _shape in [(4, 3)] if _wide else [(0, 3), (1, 1), (4, 3), (3, 4), (2, 3, 2), (3, 0)]:
        _one = [(_shape, _kind)]
        add("lu", _one)
        add("geqrf", _one)
        for _full in (True, False):
            add("qr", _one, full_matrices=_full, pivoting=False, use_magma=None)
            add(
                "svd",
                _one,
                full_matrices=_full,
                compute_uv=True,
                subset_by_index=None,
                algorithm=None,
            )
        add("qr", _one, full_matrices=False, pivoting=True, use_magma=None)
        add(
            "svd",
            _one,
            full_matrices=False,
            compute_uv=False,
            subset_by_index=None,
            algorithm=None,
        )
    # Reflectors, as geqrf leaves them.
    for _shape, _count in (
        [((4, 3), 3)] if _wide else [((0, 0), 0), ((1, 1), 1), ((4, 3), 2), ((2, 4, 4), 4)]
    ):
        _taus = (*_shape[:-2], _count)
        add("householder_product", [(_shape, _kind), (_taus, _kind)], [(-1, 1), (0, 1)])
        for _left in (True, False):
            for _transpose in (True, False):
                _other = (*_shape[:-2], *((_shape[-2], 2) if _left else (2, _shape[-2])))
                add(
                    "ormqr",
                    [((*_shape[:-1], _count), _kind), (_taus, _kind), (_other, _kind)],
                    [(-1, 1), (0, 1), None],
                    left=_left,
                    transpose=_transpose,
                )
    for _left in (True, False):
        for _shape, _other in (
            [((3, 3), (3, 3))]
            if _wide
            else [
                ((0, 0), (0, 0)),
                ((1, 1), (1, 1)),
                ((3, 3), (3, 3)),
                ((2, 3, 3), (2, 3, 3)),
            ]
        ):
            for _lower, _transpose, _unit in [(True, False, False), (False, True, True)]:
                add(
                    "triangular_solve",
                    [(_shape, _kind), (_other, _kind)],
                    [triangular, None],
                    left_side=_left,
                    lower=_lower,
                    transpose_a=_transpose,
                    conjugate_a=_transpose and _wide,
                    unit_diagonal=_unit,
                )

for _shape, _size in [((0,), 3), ((1,), 1), ((3,), 4), ((2, 3), 3)]:
    add(
        "lu_pivots_to_permutation",
        [(_shape, "int32")],
        lambda rng, shape, dtype: (
            np.minimum(np.arange(1, shape[-1] + 1), shape[-1] - 1) + np.zeros(shape)
        ),
        permutation_size=_size,
    )

for _kind in ("float32", "float64"):
    for _shape in [(1,), (5,), (2, 5)]:
        add(
            "tridiagonal_solve",
            [*[(_shape, _kind)] * 3, ((*_shape, 2), _kind)],
            [(0.1, 0.4), (1, 2), (0.1, 0.4), None],
            perturb_singular=False,
        )
    for _c, _a in [((0, 0), (0, 2)), ((1, 1), (1, 1)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 4))]:
        add("symmetric_product", [(_a, _kind), (_c, _kind)], alpha=1.5, beta=0.5)
    for _n in (1, 4):
        add("cholesky_update", [((_n, _n), _kind), ((_n,), _kind)], [triangular, None])

# ---- Fourier transforms ----

for _part, _whole in (("float32", "complex64"), ("float64", "complex128")):
    for _shape, _lengths in [
        ((1,), (1,)),
        ((6,), (6,)),
        ((2, 5), (5,)),
        ((3, 4), (3, 4)),
        ((0, 4), (4,)),
    ]:
        for _type in (FftType.FFT, FftType.IFFT):
            add("fft", [(_shape, _whole)], fft_type=_type, fft_lengths=_lengths)
        add("fft", [(_shape, _part)], fft_type=FftType.RFFT, fft_lengths=_lengths)
        _half = (*_shape[:-1], _lengths[-1] // 2 + 1)
        add("fft", [(_half, _whole)], fft_type=FftType.IRFFT, fft_lengths=_lengths)
