"""Samples of pointwise primitives: every dtype class, scalars, empty arrays, stretched axes."""

from __future__ import annotations

from gpuarray.core import dtypes
from gpuarray.primitives.elementwise.arithmetic import RoundingMethod
from tests.samples import Row, Table

FLOATS = "float32 float16 bfloat16 float64".split()
COMPLEXES = "complex64 complex128".split()
SIGNED = "int32 int8 int64".split()
UNSIGNED = "uint32 uint8 uint64".split()
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS[:3] + INTEGERS + COMPLEXES[:1]
ALL = [*NUMBERS, "bool"]

_ONE = [(), (0,), (1,), (2, 3)]
_TWO = [((), ()), ((0,), (0,)), ((1,), (1,)), ((4, 3), (4, 3)), ((2, 3), ()), ((2, 1), (1, 3))]
_THREE = [((),) * 3, ((0,),) * 3, ((1,),) * 3, ((2, 3),) * 3, ((), (2, 3), ())]
_SHAPES = {1: [(s,) for s in _ONE], 2: _TWO, 3: _THREE, 4: [((),) * 4, ((0,),) * 4, ((2, 3),) * 4]}

SAMPLES: Table = {}


def rows(names: str, kinds: list[str], *, arity: int = 1, domain: object = "any", **params) -> None:
    """All shapes in the first dtype, one shape in each other."""
    for name in names.split():
        for i, dtype in enumerate(kinds):
            shapes = _SHAPES[arity] if i == 0 else _SHAPES[arity][3:4] or _SHAPES[arity][-1:]
            for given in shapes:
                row = [(shape, dtype) for shape in given], params, domain
                SAMPLES.setdefault(name, []).append(row)


def add(name: str, *more: Row) -> None:
    SAMPLES.setdefault(name, []).extend(more)


# ---- arithmetic ----

rows("add sub mul add_any", NUMBERS, arity=2)
rows("mul", ["int8"], arity=2, out_dtype=dtypes.int32)
rows("div", NUMBERS, arity=2)
rows("rem", FLOATS + INTEGERS, arity=2)
rows("max min", ALL, arity=2, domain=None)
rows("neg sign square", NUMBERS)
rows("abs", FLOATS + SIGNED + COMPLEXES)
rows("integer_pow", NUMBERS, y=3)
rows("integer_pow", ["float32", "complex64"], domain=(0.5, 2.0), y=-2)
rows("integer_pow", ["float32", "int32"], y=0)
rows("nextafter", FLOATS, arity=2)
rows("clamp", FLOATS[:3] + INTEGERS, arity=3, domain=None)
rows("floor ceil is_finite", FLOATS)
for method in RoundingMethod:
    rows("round", FLOATS, rounding_method=method)

# ---- comparison and choice ----

rows("eq ne", [*ALL, "key<fry>", "key<rbg>"], arity=2)
rows("lt le gt ge eq_to lt_to le_to", FLOATS[:3] + INTEGERS + ["bool"], arity=2)
rows("copy stop_gradient stage", [*ALL, "key<fry>"])
for _shape in _ONE:
    add("select_n", ([(_shape, "bool"), (_shape, "float32"), (_shape, "float32")], {}, "any"))
add(
    "select_n",
    ([((), "bool"), ((2, 3), "int8"), ((2, 3), "int8")], {}, "any"),
    ([((2, 3), "int32"), *[((2, 3), "bfloat16")] * 3], {}, [(-1, 3), None, None, None]),
    ([((2, 3), "bool"), *[((2, 3), "key<fry>")] * 2], {}, None),
    ([((3,), "bool"), ((3,), "complex64")], {}, None),
)

# ---- element types and bits ----

for _new in ("float32", "bfloat16", "float16", "int32", "int8", "uint8", "bool", "complex64"):
    _target = dtypes.as_dtype(_new)
    rows("convert_element_type", ALL, new_dtype=_target, weak_type=False, sharding=None)
rows(
    "convert_element_type",
    ["float8_e4m3fn", "float8_e5m2", "int4", "float32"],
    domain=None,
    new_dtype=dtypes.float32,
    weak_type=True,
    sharding=None,
)
rows("complex", ["float32", "float64"], arity=2)
rows("real imag", COMPLEXES)
rows("conj", ["float32"], input_dtype=dtypes.float32)
rows("conj", ["complex64"], input_dtype=dtypes.complex64)
rows("and or xor", [*INTEGERS, "bool"], arity=2)
rows("not", [*INTEGERS, "bool"])
rows("shift_left shift_right_logical shift_right_arithmetic", INTEGERS, arity=2)
rows("shift_left shift_right_logical shift_right_arithmetic", INTEGERS, arity=2, domain=(0, 9))
rows("population_count clz", INTEGERS)
rows("mulhi", INTEGERS, arity=2)
rows("bitcast_convert_type", ["float32", "uint32"], new_dtype=dtypes.int32)
rows("bitcast_convert_type", ["bfloat16", "float16"], new_dtype=dtypes.uint16)
add(
    "bitcast_convert_type",
    ([((2, 3), "float32")], {"new_dtype": dtypes.uint8}, "any"),
    ([((2, 4), "uint8")], {"new_dtype": dtypes.float32}, "any"),
    ([((0, 2), "uint16")], {"new_dtype": dtypes.uint32}, "any"),
)
rows("reduce_precision", FLOATS, exponent_bits=5, mantissa_bits=3)
rows("reduce_precision", ["float32"], exponent_bits=8, mantissa_bits=7)

# ---- functions ----

rows("exp exp2 expm1 log log1p logistic sqrt rsqrt sin cos tan tanh", FLOATS, accuracy=None)
rows("cbrt", FLOATS, accuracy=None)
rows(
    "exp exp2 expm1 log log1p logistic sqrt rsqrt sin cos tan tanh",
    COMPLEXES,
    domain=None,
    accuracy=None,
)
rows("asin acos atan sinh cosh asinh acosh atanh", FLOATS)
rows("asin acos atan sinh cosh asinh acosh atanh", COMPLEXES, domain=None)
rows("atan2", FLOATS, arity=2)
rows("atan2", COMPLEXES, arity=2, domain=None)
rows("pow", FLOATS, arity=2)
rows("pow", COMPLEXES, arity=2, domain=None)
add("pow", ([((2, 3), "float32"), ((2, 3), "int32")], {}, None))
add("pow", ([((2, 3), "complex64"), ((), "int32")], {}, None))

rows("erf erfc lgamma digamma bessel_i0e bessel_i1e", FLOATS)
rows("erf_inv", FLOATS, domain=(-1, 1))
rows("erf_inv", FLOATS[:1])
rows("polygamma", FLOATS, arity=2, domain=[(0, 3), (0.1, 9)])
rows("zeta", FLOATS, arity=2, domain=[(1.1, 5), (0.1, 5)])
rows("igamma igammac igamma_grad_a", FLOATS, arity=2, domain=(0.1, 9))
rows("random_gamma_grad", FLOATS, arity=2, domain=(0.1, 5))
rows("regularized_incomplete_beta", FLOATS, arity=3, domain=[(0.1, 5), (0.1, 5), (0, 1)])
rows("threefry2x32", ["uint32"], arity=4)
