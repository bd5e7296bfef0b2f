"""The table of factors: what the axes of every primitive have in common, or why nothing.

tests/generic/test_pieces.py evaluates every one of them on pieces.
"""

import numpy as np
import pytest

import gpuarray.scipy.special  # noqa: F401  # registers primitives of its own
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import BY_GRAPH, BY_NAME, WHOLE, Factors
from gpuarray.core.fold import Fold, Identity
from gpuarray.core.primitive import Kind, Primitive, Sentinel, registry
from gpuarray.primitives.contract.fft import FftType
from gpuarray.primitives.define import reduction
from gpuarray.primitives.factors import factors_of, rule_of
from gpuarray.primitives.indexing.shapes import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from tests.generic.test_registry import NAMES
from tests.samples import dtype_named
from tests.support.equations import adds, conv, dot, lookup, ragged, window

#: Operands are needed whole. Whoever adds one says why, as `Primitive(factors=whole("..."))`.
NEEDS_ALL = {"pure_callback", "io_callback", "debug_callback", "debug_print", "rng_uniform"}


# ---- every primitive ----


def test_every_primitive_has_factors_or_says_why_not():
    without = {n: r for n in NAMES if isinstance(r := rule_of(registry[n]), Sentinel)}
    of_kind = {n: registry[n].kind for n in without}
    assert {n for n, k in of_kind.items() if k is Kind.CALL} == {
        n for n, r in without.items() if r is BY_GRAPH
    }
    assert {n for n, k in of_kind.items() if k is Kind.COLLECTIVE} == {
        n for n, r in without.items() if r is BY_NAME
    }
    rest = {n: r for n, r in without.items() if r not in (BY_GRAPH, BY_NAME)}
    assert set(rest) == NEEDS_ALL
    for n, r in rest.items():
        assert r.name in ("WHOLE", "ONCE") and r is not WHOLE and r.why, (
            f"{n}: say why it is needed whole"
        )


@pytest.mark.parametrize("kind", (Kind.CALL, Kind.COLLECTIVE))
def test_calls_and_collectives_are_refused(kind):
    prim = next(p for p in registry.values() if p.kind is kind)
    with pytest.raises(TypeError, match=rf"{prim.name} has no factors: "):
        factors_of(prim, [], [], {})


def test_primitives_of_users_are_whole():
    """An operation of which nothing is known needs its operands whole; a pointwise one does not."""
    a = ShapedArray((4, 6), np.float32)
    unknown = factors_of(Primitive("unknown", register=False), [a], [a], {})
    assert unknown.ins == unknown.outs == (((), ()),)
    assert unknown.sizes == ()
    known = factors_of(Primitive("known", Kind.POINTWISE, register=False), [a], [a], {})
    assert known.ins == known.outs == (((0,), (1,)),)
    assert known.sizes == (4, 6)


@pytest.mark.parametrize(
    ("ufunc", "finish", "owed"),
    [(np.add, "{0}", "sum"), (np.add, "sqrtf({0})", None), (np.bitwise_xor, "{0}", None)],
)
def test_folds_of_users(ufunc, finish, owed):
    """A fold owes what merges the results of two pieces, if anything does."""
    fold = Fold(Identity.ZERO, "{0} + {1}", lift="{0} * {0}", finish=finish, ufunc=ufunc)
    prim = reduction("fold_of_a_test", fold=fold, register=False)
    a, out = ShapedArray((4, 6), np.float32), ShapedArray((4,), np.float32)
    f = factors_of(prim, [a], [out], {"axes": (1,)})
    assert f.ins == ((((0,), (1,)) if owed else ((0,), ())),)
    assert f.owed == ({1: owed} if owed else {})


# ---- what the rules find ----


def spelled(f: Factors) -> str:
    """Factors as letters: "ab,bc->ac  sum b" is a product of matrices.

    A dot is a whole axis; parentheses hold the factors of one axis, major first.
    """

    def axis(numbers: tuple[int, ...]) -> str:
        letters = "".join(chr(ord("a") + i) for i in numbers)
        return f"({letters})" if len(letters) > 1 else letters or "."

    ins, outs = (",".join("".join(map(axis, axes)) for axes in some) for some in (f.ins, f.outs))
    return "  ".join([f"{ins}->{outs}", *(f"{how} {axis((i,))}" for i, how in f.owed.items())])


def factors(name: str, operands, params) -> Factors:
    """Of operands given as shapes, of float32 but where a dtype is named."""
    typed = [x if x and isinstance(x[-1], str) else (*x, "float32") for x in operands]
    avals = [ShapedArray(tuple(shape), dtype_named(dtype)) for *shape, dtype in typed]
    prim = registry[name]
    return factors_of(prim, avals, prim.out_avals(avals, params), params)


_I = "int32"
_DROP = GatherScatterMode.FILL_OR_DROP
_SCATTER = {
    "indices_are_sorted": False,
    "unique_indices": False,
    "mode": _DROP,
    "update_jaxpr": None,
    "update_consts": (),
}
_TO_ROWS = _SCATTER | {"dimension_numbers": ScatterDimensionNumbers((1,), (0,), (0,))}
_TO_WINDOWS = _SCATTER | {"dimension_numbers": ScatterDimensionNumbers((1,), (), (0,))}
_TO_PAIRS = _SCATTER | {"dimension_numbers": ScatterDimensionNumbers((1,), (), (1,), (0,), (0,))}
_SQUARE = {"left_side": True, "lower": True, "transpose_a": False}
_SQUARE |= {"conjugate_a": False, "unit_diagonal": False}

#: (primitive, operands, params, what is shared)
SHARED = [
    ("add", [(4, 6), (4, 6)], {}, "ab,ab->ab"),
    ("add", [(4, 6), (1, 6)], {}, "ab,.b->ab"),
    ("add", [(4, 6), ()], {}, "ab,->ab"),
    ("select_n", [(4, "bool"), (4,), (4,)], {}, "a,a,a->a"),
    ("select_n", [("bool",), (4,), (4,)], {}, ",a,a->a"),
    ("bitcast_convert_type", [(4, 6)], {"new_dtype": np.dtype(np.int16)}, "ab->ab."),
    ("optimization_barrier", [(4, 6), (4,)], {}, "ab,c->ab,c"),
    ("shard_alike", [(4, 6), (4, 6)], {}, "ab,ab->ab,ab"),
    ("reduce_sum", [(4, 6, 2)], {"axes": (0, 2)}, "abc->b  sum a  sum c"),
    ("reduce_prod", [(4, 6)], {"axes": (1,)}, "ab->a  prod b"),
    ("reduce_max", [(4, 6)], {"axes": (1,)}, "ab->a  max b"),
    ("reduce_min", [(4, 6)], {"axes": (1,)}, "ab->a  min b"),
    ("reduce_and", [(4, 6, "bool")], {"axes": (1,)}, "ab->a  and b"),
    ("reduce_or", [(4, 6, _I)], {"axes": (0,)}, "ab->b  or a"),
    ("reduce_xor", [(4, 6, _I)], {"axes": (1,)}, "a.->a"),
    ("argmax", [(4, 6)], {"axes": (1,), "index_dtype": np.dtype(np.int32)}, "a.->a"),
    ("reduce", [(4, 6), ()], {"jaxpr": adds(), "dimensions": (1,), "computation": None},
     "a.,->a"),
    ("cumsum", [(4, 6, 2)], {"axis": 1, "reverse": False}, "a.b->a.b"),
    ("sort", [(4, 6), (4, 6)], {"dimension": 0, "is_stable": True, "num_keys": 1}, ".a,.a->.a,.a"),
    ("top_k", [(4, 6)], {"k": 6, "axis": 1}, "a.->a.,a."),
    ("searchsorted", [(4, 8), (4, 6)], {"side": "left", "dtype": np.dtype(np.int32)},
     "ab,ac->ac  sum b"),
    ("transpose", [(4, 6, 2)], {"permutation": (2, 0, 1)}, "abc->cab"),
    ("squeeze", [(4, 1, 6)], {"dimensions": (1,)}, "a.b->ab"),
    ("broadcast_in_dim", [(4, 1)], {"shape": (2, 6, 4), "broadcast_dimensions": (2, 1)},
     "a.->bca"),
    ("rev", [(4, 6)], {"dimensions": (0,)}, ".a->.a"),
    ("slice", [(4, 6, 2)],
     {"start_indices": (0, 0, 1), "limit_indices": (4, 5, 2), "strides": None}, "a..->a.."),
    ("slice", [(4, 6)], {"start_indices": (0, 0), "limit_indices": (4, 6), "strides": (1, 2)},
     "a.->a."),
    ("pad", [(4, 6, 2), ()], {"padding_config": ((0, 0, 0), (0, 0, 1), (-1, 1, 0))},
     "a..,->a.."),
    ("concatenate", [(4, 6), (4, 2)], {"dimension": 1}, "a.,a.->a."),
    ("stack", [(4, 6), (4, 6)], {"axis": 1}, "ab,ab->a.b"),
    ("unstack", [(4, 2, 6)], {"axis": 1}, "a.b->ab,ab"),
    ("split", [(4, 6)], {"sizes": (2, 4), "axis": 1}, "a.->a.,a."),
    ("tile", [(4, 6)], {"reps": (2, 1)}, "ab->(ca)(db)"),
    ("dynamic_slice", [(4, 6), (_I,), (_I,)], {"slice_sizes": (4, 2)}, "a.,,->a."),
    ("dynamic_update_slice", [(4, 6), (1, 6), (_I,), (_I,)], {}, ".a,.a,,->.a"),
    ("iota", [], {"dtype": np.dtype(np.int32), "shape": (4, 6), "dimension": 1}, "->ab"),
    ("iota", [], {"dtype": np.dtype(np.int32), "shape": (4, 2**31 + 8), "dimension": 1}, "->a."),
    ("empty", [], {"dtype": np.dtype(np.int32), "shape": (4, 6)}, "->ab"),
    ("random_bits", [(4, "key<fry>")], {"bit_width": 32, "shape": (6, 2), "partitionable": True},
     "a->abc"),
    ("random_bits", [(4, "key<fry>")], {"bit_width": 32, "shape": (6, 2), "partitionable": False},
     "a->abc"),
    ("random_bits", [(4, "key<rbg>")], {"bit_width": 32, "shape": (6, 2), "partitionable": True},
     "a->a.."),
    ("random_bits", [(4, "key<fry>")],
     {"bit_width": 8, "shape": (2**31, 2), "partitionable": True}, "a->a.."),
    ("random_split", [(4, "key<fry>")], {"shape": (2,), "partitionable": True}, "a->a."),
    ("random_fold_in", [(4, "key<fry>"), (4, "uint32")], {}, "a,a->a"),
    ("random_unwrap", [(4, 6, "key<fry>")], {}, "ab->ab."),
    ("random_gamma", [(4, "key<fry>"), (4, 6)], {"log_space": False}, "a,a.->a."),
    ("dot_general", [(4, 6), (6, 8)], dot((1,), (0,)), "ab,bc->ac  sum b"),
    ("dot_general", [(4, 6), (6, 8)], dot((1,), (0,), np.dtype(np.int32)), "a.,.b->ab"),
    ("dot_general", [(4, 6, _I), (6, 8, _I)], dot((1,), (0,), np.dtype(np.float32)),
     "ab,bc->ac  sum b"),
    ("dot_general", [(4, 6, "bool"), (6, 8, "bool")], dot((1,), (0,)), "ab,bc->ac  or b"),
    ("dot_general", [(4, 6), (6, 8)], dot((1,), (0,), np.dtype(bool)), "a.,.b->ab"),
    ("dot_general", [(4, 6, 2), (8, 4, 6)],
     dot((1,), (2,)) | {"dimension_numbers": (((1,), (2,)), ((0,), (1,)))}, "abc,dab->acd  sum b"),
    ("ragged_dot_general", [(6, 4), (2, 4, 8), (2, _I)], ragged((1,), (1,), (), (), 0, (0,)),
     ".a,.ab,.->.b  sum a"),
    ("ragged_dot_general", [(4, 6), (6, 8), (2, _I)], ragged((1,), (0,), (), (), 1),
     "a.,.b,.->.ab"),
    ("ragged_dot_general", [(4, 6, 2), (4, 6, 8), (4, 2, _I)],
     ragged((1,), (1,), (0,), (0,), 1), "a.b,a.c,a.->.abc"),
    ("conv_general_dilated", [(2, 6, 5, 5), (4, 6, 3, 1)], conv(),
     "(ab)(cd).e,(caf)d..->b(caf).e  sum d"),
    ("conv_general_dilated", [(2, 6, 5, 5, "bool"), (4, 6, 3, 3, "bool")], conv(),
     "(ab)(cd)..,(cae)d..->b(cae)..  or d"),
    ("fft", [(4, 6, 8, "complex64")], {"fft_type": FftType.FFT, "fft_lengths": (8,)},
     "ab.->ab."),
    ("cholesky", [(4, 3, 3)], {}, "a..->a.."),
    ("lu", [(4, 3, 3)], {}, "a..->a..,a.,a."),
    ("triangular_solve", [(4, 3, 3), (4, 3, 6)], _SQUARE, "a..,a.b->a.b"),
    ("triangular_solve", [(4, 3, 3), (4, 6, 3)], _SQUARE | {"left_side": False},
     "a..,ab.->ab."),
    ("tridiagonal_solve", [(4, 3), (4, 3), (4, 3), (4, 3, 6)], {}, "a.,a.,a.,a.b->a.b"),
    ("ormqr", [(4, 3, 2), (4, 2), (4, 3, 6)], {"left": True, "transpose": False},
     "a..,a.,a.b->a.b"),
    ("symmetric_product", [(4, 3, 6), (4, 3, 3)], {"alpha": 1.0, "beta": 1.0}, "a..,a..->a.."),
    ("reduce_window_sum", [(4, 6, 2)], window(), "a.b->a.b"),
    ("gather", [(8, 3), (4, 1, _I)], lookup(_DROP), "ab,c.->cb  pick a"),
    ("gather", [(8, 3, "bool"), (4, 1, _I)], lookup(_DROP), "ab,c.->cb  or a"),
    ("gather", [(8, 3, "key<fry>"), (4, 1, _I)], lookup(_DROP), ".a,b.->ba"),
    ("gather", [(8, 3), (4, 1, _I)], lookup(_DROP) | {"slice_sizes": (1, 2)}, "a.,b.->b.  pick a"),
    ("gather", [(4, 8), (4, 1, _I)],
     {**lookup(_DROP), "slice_sizes": (1, 1),
      "dimension_numbers": GatherDimensionNumbers((), (1,), (1,), (0,), (0,))}, "ab,a.->a  pick b"),
    ("scatter", [(8, 3), (4, 1, _I), (4, 3)], _TO_ROWS, "ab,..,.b->ab"),
    ("scatter-add", [(8, 3), (4, 1, _I), (4, 3)], _TO_ROWS, "ab,c.,cb->ab  sum c"),
    ("scatter-add", [(8, 3, "bool"), (4, 1, _I), (4, 3, "bool")], _TO_ROWS, "ab,..,.b->ab"),
    ("scatter-sub", [(8, 3), (4, 1, _I), (4, 3)], _TO_ROWS, "ab,c.,cb->ab  sum c"),
    ("scatter-mul", [(8, 3), (4, 1, _I), (4, 3)], _TO_ROWS, "ab,c.,cb->ab  prod c"),
    ("scatter-min", [(8, 3), (4, 1, _I), (4, 3)], _TO_ROWS, "ab,c.,cb->ab  min c"),
    ("scatter-max", [(8, 3), (4, 1, _I), (4, 3)], _TO_ROWS, "ab,c.,cb->ab  max c"),
    ("scatter-add", [(8,), (4, 1, _I), (4, 2)], _TO_WINDOWS, ".,a.,a.->.  sum a"),
    ("scatter-add", [(8,), (4, 1, _I), (4, 8)], _TO_WINDOWS, "a,b.,ba->a  sum b"),
    ("scatter-add", [(4, 8), (4, 1, _I), (4, 1)], _TO_PAIRS, "ab,a.,a.->ab"),
    ("scatter", [(4, 8), (4, 1, _I), (4, 1)], _TO_PAIRS, "ab,a.,a.->ab"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "params", "shared"), SHARED)
def test_what_axes_have_in_common(name, operands, params, shared):
    assert spelled(factors(name, operands, params)) == shared


@pytest.mark.parametrize(
    ("before", "after", "ins", "outs", "sizes"),
    [
        ((12, 5), (3, 4, 5), ((0, 1), (2,)), ((0,), (1,), (2,)), (3, 4, 5)),
        ((4, 6), (8, 3), ((0,), (1, 2)), ((0, 1), (2,)), (4, 2, 3)),
        ((6, 4), (4, 6), ((0,), ()), ((0,), ()), (2,)),
        ((2, 9, 4, 5), (2, 6, 6, 5), ((0,), (1,), (), (2,)), ((0,), (1,), (), (2,)), (2, 3, 5)),
        ((4, 1, 6), (1, 24), ((0,), (), (1,)), ((), (0, 1)), (4, 6)),
        ((0, 4), (4, 0), ((), ()), ((), ()), ()),
        ((5, 7), (7, 5), ((), ()), ((), ()), ()),
    ],
)
def test_reshapes(before, after, ins, outs, sizes):
    params = {"new_sizes": after, "dimensions": None, "sharding": None}
    f = factors("reshape", [before], params)
    assert (f.ins, f.outs, f.sizes) == ((ins,), (outs,), sizes)


def test_groups_of_a_convolution():
    f = factors("conv_general_dilated", [(2, 8, 5, 5), (12, 2, 3, 3)], conv(4))
    groups, depth, out = f.ins[0][1][0], f.ins[0][1][1], f.ins[1][0][-1]
    assert (f.sizes[groups], f.sizes[depth], f.sizes[out]) == (4, 2, 3)
    assert f.owed == {depth: "sum"}
    local = f.local(conv(4), {groups: 2})
    assert local["feature_group_count"] == 2
    assert f.local(conv(4), {depth: 2})["feature_group_count"] == 4
