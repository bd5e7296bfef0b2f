"""Every primitive with factors, evaluated on pieces, makes what it makes of the whole.

Each sample is cut along each factor and each two of them; the pieces' results, put together or
combined, are those of the whole. That this finds faults is tried too: rules with a mistake fail.
"""

import contextlib
import functools
import itertools
import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.scipy.special  # registers primitives of its own
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import COMBINED_BY, Factors
from gpuarray.core.primitive import Kind, Sentinel, registry
from gpuarray.primitives.elementwise.arithmetic import ge_p
from gpuarray.primitives.factors import factors_of, rule_of
from gpuarray.primitives.indexing.shapes import GatherScatterMode
from gpuarray.primitives.random.ops import RandomAlgorithm
from tests.generic.test_primitives import bits_agree
from tests.samples import Sample, samples, values
from tests.support.equations import adds, conv, dot, lookup, ragged, window
from tests.support.nearness import assert_near
from tests.support.pieces import as_array, evaluate, in_pieces, stored


def _sizes(rng, shape, dtype):
    return np.array([1, 2])


def _rows(rng, shape, dtype):
    return rng.integers(-3, 12, shape) if np.dtype(dtype).kind == "i" else rng.integers(0, 9, shape)


def _ascending(rng, shape, dtype):
    return np.sort(rng.normal(size=shape), -1)


_F = "float32"
#: Where no row of tests/samples_*.py has an axis to cut, or enough of them for a rule's cases.
MORE = {
    "slice": [
        (
            [((4, 6, 2), _F)],
            {"start_indices": (0, 1, 0), "limit_indices": (4, 5, 2), "strides": None},
            None,
        ),
        (
            [((4, 6), _F)],
            {"start_indices": (0, 0), "limit_indices": (4, 6), "strides": (1, 2)},
            None,
        ),
    ],
    "reshape": [
        ([((4, 6), _F)], {"new_sizes": (8, 3), "dimensions": None, "sharding": None}, None),
        ([((4, 6), _F)], {"new_sizes": (6, 4), "dimensions": None, "sharding": None}, None),
        ([((4, 6), _F)], {"new_sizes": (2, 12), "dimensions": (1, 0), "sharding": None}, None),
        (
            [((2, 9, 4, 5), _F)],
            {"new_sizes": (2, 6, 6, 5, 1), "dimensions": None, "sharding": None},
            None,
        ),
    ],
    "broadcast_in_dim": [
        (
            [((4, 1), _F)],
            {"shape": (2, 6, 4), "broadcast_dimensions": (2, 1), "sharding": None},
            None,
        ),
    ],
    "dynamic_slice": [
        ([((4, 6), _F), *[((), "int32")] * 2], {"slice_sizes": (4, 2)}, [None, (0, 9), (0, 9)]),
    ],
    "rng_bit_generator": [
        (
            [((4, 2, 4), "uint32")],
            {
                "shape": (4, 2, 3),
                "dtype": np.dtype(np.uint32),
                "algorithm": RandomAlgorithm.RNG_DEFAULT,
                "out_sharding": None,
            },
            None,
        )
    ],
    "random_bits": [
        ([((2,), "key<fry>")], {"bit_width": w, "shape": (4, 6), "partitionable": True}, None)
        for w in (8, 32, 64)
    ],
    "cholesky_update": [([((4, 3, 3), _F), ((4, 3), _F)], {}, (1, 2))],
    "conv_general_dilated": [
        ([((4, 6, 4, 2), _F), ((8, 3, 1, 1), _F)], conv(2), None),
        ([((4, 2, 4, 3), _F), ((8, 2, 1, 2), _F)], conv(1, 2), None),
        ([((4, 2, 4, 3), "bool"), ((8, 2, 2, 2), "bool")], conv(), None),
        (
            [((4, 5, 3, 8), _F), ((2, 3, 4, 4), _F)],
            conv(2, spec=((0, 3, 1, 2), (3, 2, 0, 1), (1, 0, 3, 2))),
            None,
        ),
    ],
    "dot_general": [
        ([((4, 6), _F), ((6, 2), _F)], dot((1,), (0,), np.dtype(np.int32)), None),
        ([((4, 6), "bool"), ((2, 6), "bool")], dot((1,), (1,)), None),
    ],
    "ragged_dot_general": [
        ([((6, 4), _F), ((2, 4, 8), _F), ((2,), "int32")], ragged((1,), (1,), (), (), 0, (0,)),
         [None, None, _sizes]),
        ([((4, 6, 2), _F), ((4, 2, 2, 8), _F), ((4, 2), "int32")],
         ragged((2,), (2,), (0,), (0,), 1, (1,)), [None, None, lambda *_: [[1, 3]] * 4]),
        ([((2, 4, 6), _F), ((6, 2, 4), _F), ((2,), "int32")],
         ragged((2, 1), (0, 2), (0,), (1,), 2), [None, None, _sizes]),
        ([((4, 6), _F), ((4, 6, 2), _F), ((2,), "int32")], ragged((1,), (1,), (0,), (0,), 0),
         [None, None, _sizes]),
    ],
    "searchsorted": [
        (
            [((2, 8), _F), ((2, 6), _F)],
            {"side": side, "dtype": np.dtype(np.int32)},
            [_ascending, None],
        )
        for side in ("left", "right")
    ],
    "gather": [
        ([((8, 3), dtype), ((4, 1), index)], lookup(mode, fill), [None, _rows])
        for dtype in (_F, "int32", "bool", "complex64")
        for index in ("int32", "uint8")
        for mode, fill in (
            (GatherScatterMode.CLIP, None),
            (GatherScatterMode.FILL_OR_DROP, None),
            (GatherScatterMode.FILL_OR_DROP, 1),
            (GatherScatterMode.ONE_HOT, None),
            (GatherScatterMode.PROMISE_IN_BOUNDS, None),
        )
    ],
    "reduce_window": [
        ([((4, 3, 6), _F), ((), _F)], window(jaxpr=adds(), consts=()), None),
    ],
    "select_and_gather_add": [
        ([((4, 3, 6), _F), ((4, 3, 6), _F)], window(select_prim=ge_p), None)
    ],
    "select_and_scatter_add": [
        (
            [((4, 2, 6), _F), ((4, 3, 6), _F)],
            {k: v for k, v in window(select_prim=ge_p).items() if "dilation" not in k},
            None,
        )
    ],
    **{
        f"reduce_window_{name}": [
            ([((4, 3, 6), _F)], window(), None),
            ([((4, 2, 6), _F)], window(window_strides=(2, 1, 1)), None),
            ([((4, 2, 6), _F)], window(padding=((0, 0), (0, 0), (1, 0))), None),
            ([((4, 2, 6), _F)], window(base_dilation=(1, 1, 2)), None),
        ]
        for name in ("sum", "max", "min")
    },
}  # fmt: skip

ALL: dict[str, list[Sample]] = {}
for _s in samples():
    ALL.setdefault(_s.primitive.name, []).append(_s)
for _name, _rows_of in MORE.items():
    ALL[_name] += [Sample(registry[_name], 100 + i, *row) for i, row in enumerate(_rows_of)]
#: Those with a rule.
CUT = sorted(n for n in ALL if not isinstance(rule_of(registry[n]), Sentinel))


def wide(sample: Sample):
    needs = sample.wide or sample.params.get("bit_width") == 64
    return ga.enable_x64(True) if needs else contextlib.nullcontext()


def of(sample: Sample) -> Factors:
    out = sample.primitive.out_avals(sample.avals, sample.params)
    return factors_of(sample.primitive, sample.avals, out, sample.params)


def ways(f: Factors):
    """Cuts of one factor, and of two at once; owed ones only with others that owe the same."""
    can = [(i, p) for i, n in enumerate(f.sizes) for p in _parts(n)]
    for i, p in can:
        yield {i: p}
    for (i, p), (j, q) in itertools.combinations(can, 2):
        if i != j and len({f.owed[k] for k in (i, j) if k in f.owed}) < 2:
            yield {i: p, j: q}


def _parts(n: int) -> list[int]:
    """The least number of equal parts, and single positions."""
    least = next((p for p in range(2, n + 1) if n % p == 0), n)
    return sorted({least, n} if 1 < n <= 6 else {least} if n > 1 else set())


def check(sample: Sample, f: Factors) -> int:
    """Raise AssertionError unless pieces make what the whole makes; return how often it was cut."""
    xs, tried = values(sample), 0
    whole = evaluate(sample.primitive, sample.avals, sample.params, xs)
    for cuts in ways(f):
        made = in_pieces(sample.primitive, sample.avals, sample.params, xs, f, cuts)
        for a, b in zip(made, whole, strict=True):
            what = f"{sample} cut {cuts}"
            if any(i in f.owed for i in cuts) or not exact(sample):
                assert_near(a, b, what)
            else:
                assert bits_agree(a, b), what
        tried += 1
    return tried


def exact(sample: Sample) -> bool:
    """Whether elements are moved, compared or drawn, so that nothing can be rounded otherwise."""
    kinds = (Kind.VIEW, Kind.MOVEMENT, Kind.GENERATOR, Kind.SORT)
    name = sample.primitive.name
    return (
        sample.primitive.kind in kinds
        or name in ("gather", "scatter", "searchsorted", "optimization_barrier")
        or name.startswith("random_")
        and sample.primitive.kind is not Kind.POINTWISE
    )


@pytest.mark.parametrize("name", CUT)
def test_pieces_make_what_the_whole_makes(name):
    tried = 0
    for sample in ALL[name]:
        with wide(sample):
            f = of(sample)
            tried += check(sample, f)
        for i in {i for axes in f.ins for axis in axes for i in axis}:
            made = any(i in axis for axes in f.outs for axis in axes)
            assert made != (i in f.owed) or not f.outs, (
                f"{sample}: {i} is one of a result's, or owed"
            )
    assert tried, "no sample has an axis to cut: add one to MORE"


def test_rows_of_a_table_are_looked_up_exactly():
    """Of the terms of the sum that is owed all but one are -0.0, which changes no number."""
    prim = registry["gather"]
    x = np.array([[0.0], [-0.0], [np.inf], [np.nan]], np.float32)
    at = np.array([[1], [0], [3], [2], [9]], np.int32)
    params = lookup(GatherScatterMode.CLIP) | {"slice_sizes": (1, 1)}
    avals = [ShapedArray(x.shape, x.dtype), ShapedArray(at.shape, at.dtype)]
    f = factors_of(prim, avals, prim.out_avals(avals, params), params)
    (row,) = f.owed
    (out,) = in_pieces(prim, avals, params, [x, at], f, {row: 4})
    np.testing.assert_array_equal(out.view(np.int32), x[[1, 0, 3, 2, 3]].view(np.int32))


def _piece(rule, params, xs, starts):
    return rule(xs, params, starts)


@pytest.mark.parametrize("name", ("iota", "random_bits", "gather", "scatter-add"))
def test_starts_may_be_traced(name):
    """One program serves every piece: where it begins is an operand."""
    tried = 0
    for sample in ALL[name]:
        with wide(sample):
            f = of(sample)
            cuts = {i: n for i, n in enumerate(f.sizes) if n > 1}
            if f.piece is None or not cuts:
                continue
            shapes, _ = f.shapes(cuts)
            params = f.local(sample.params, cuts)
            xs = [
                as_array(x[tuple(map(slice, s))], a.dtype)
                for x, s, a in zip(values(sample), shapes, sample.avals, strict=True)
            ]
            piece = functools.partial(_piece, f.piece, params)
            program = ga.jit(piece)
            for place in (
                dict.fromkeys(cuts, np.int32(0)),
                {i: np.int32(n - 1) for i, n in cuts.items()},
            ):
                for a, b in zip(program(xs, place), piece(xs, place), strict=True):
                    assert bits_agree(stored(a), stored(b)), str(sample)
            tried += 1
        if tried == 3:
            return
    assert tried


# ---- mistakes are found ----


def _swapped(axes, k: int):
    """Operand or result k with two neighbouring axes' factors exchanged."""
    if k >= len(axes) or len(axes[k]) < 2:
        return axes
    a, b, *rest = axes[k]
    return (*axes[:k], (b, a, *rest), *axes[k + 1 :])


def _without(axes, k: int):
    """Operand or result k with its first cut axis whole."""
    if k >= len(axes):
        return axes
    first = next((i for i, axis in enumerate(axes[k]) if axis), None)
    changed = tuple(() if i == first else axis for i, axis in enumerate(axes[k]))
    return (*axes[:k], changed, *axes[k + 1 :])


def _reversed(axes):
    return tuple(tuple(axis[::-1] for axis in some) for some in axes)


def _too_much(f: Factors) -> Factors:
    """A whole axis is cut: where a result has such an axis at that place, or else as a sum."""
    for k, (axes, shape) in enumerate(zip(f.ins, f.in_shapes, strict=True)):
        for d, axis in enumerate(axes):
            if axis or shape[d] < 2:
                continue
            new = len(f.sizes)
            ins = (*f.ins[:k], (*axes[:d], (new,), *axes[d + 1 :]), *f.ins[k + 1 :])
            outs, owed = f.outs, {**f.owed, new: "sum"}
            for r, (there, length) in enumerate(zip(f.outs, f.out_shapes, strict=True)):
                if d < len(there) and not there[d] and length[d] == shape[d]:
                    outs = (*outs[:r], (*there[:d], (new,), *there[d + 1 :]), *outs[r + 1 :])
                    owed = f.owed
            return f._replace(ins=ins, outs=outs, owed=owed, sizes=(*f.sizes, shape[d]))
    return f


_OTHER = {
    "sum": "max", "prod": "sum", "max": "min", "min": "max", "and": "or", "or": "and",
    "pick": "min",
}  # fmt: skip

MISTAKES = {
    "owed is dropped": lambda f: f._replace(owed={}),
    "owed is another": lambda f: f._replace(owed={i: _OTHER[h] for i, h in f.owed.items()}),
    "operand 0 swapped": lambda f: f._replace(ins=_swapped(f.ins, 0)),
    "operand 1 swapped": lambda f: f._replace(ins=_swapped(f.ins, 1)),
    "result 0 swapped": lambda f: f._replace(outs=_swapped(f.outs, 0)),
    "operand 0 not cut": lambda f: f._replace(ins=_without(f.ins, 0)),
    "operand 1 not cut": lambda f: f._replace(ins=_without(f.ins, 1)),
    "result 0 not cut": lambda f: f._replace(outs=_without(f.outs, 0)),
    "major and minor": lambda f: f._replace(ins=_reversed(f.ins)),
    "a whole axis cut": _too_much,
    "params of the whole": lambda f: f._replace(resize=None),
    "no piece": lambda f: f._replace(piece=None),
    "every piece the first": lambda f: f._replace(
        piece=f.piece
        and (lambda xs, params, starts: f.piece(xs, params, dict.fromkeys(starts, np.int32(0))))
    ),
}
#: One primitive stands for all that have the rule of pointwise operations.
_TRIED = [n for n in CUT if registry[n].kind is not Kind.POINTWISE]
_TRIED += ["select_n", "clamp", "atan2", "bitcast_convert_type"]


def found(name: str, mistake) -> bool | None:
    """Whether a rule with a mistake fails on a sample; None where it changes nothing."""
    changes = False
    for sample in sorted(ALL[name], key=lambda s: -sum(math.prod(a.shape) for a in s.avals)):
        with wide(sample):
            right = of(sample)
            wrong = mistake(right)
            if wrong == right or not any(n > 1 for n in wrong.sizes):
                continue
            changes = True
            try:
                check(sample, wrong)
            except Exception:  # of any kind: shapes that do not fit are a fault too
                return True
    return False if changes else None


def test_mistakes_are_found():
    results = {(n, what): found(n, m) for n in _TRIED for what, m in MISTAKES.items()}
    tried = {k: v for k, v in results.items() if v is not None}
    assert set(COMBINED_BY) == set(_OTHER)
    missed = sorted(k for k, v in tried.items() if not v)
    assert len(tried) > 300
    assert len(missed) <= 0.05 * len(tried), missed
