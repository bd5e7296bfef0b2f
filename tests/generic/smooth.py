"""Where primitives are smooth: the samples of tests/samples.py as functions with derivatives.

In: samples. Out: `DIFFERENTIABLE`, in double precision and where no tangent is infinite; `Curve`, a
sample as a function of the operands that have derivatives; what refuses to be differentiated.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import gpuarray as ga
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Literal, Var
from gpuarray.core.primitive import NOT_DIFFERENTIABLE
from tests.generic.test_primitives import RANDOM, as_array, stored
from tests.samples import Sample, samples, values

# ---- what is tried ----

WIDE = {
    "float16": "float64",
    "bfloat16": "float64",
    "float32": "float64",
    "complex64": "complex128",
}


def whole_numbers(rng, shape, dtype):
    return rng.integers(0, 4, shape)


#: Where a function is smooth, and no tangent is infinite.
SMOOTH = {
    "log log2 sqrt rsqrt lgamma digamma cbrt gamma spence expi cosine_integral": (0.3, 3),
    "log1p": (-0.5, 2),
    "asin acos atanh erf_inv": (-0.9, 0.9),
    "acosh": (1.2, 3),
    "pow": [(0.3, 3), None],
    "div rem": [None, (0.5, 2)],
    "clamp": [(-2, -0.5), None, (0.5, 2)],
    "integer_pow": (0.5, 2),
    "polygamma": [whole_numbers, (0.5, 5)],
    "zeta": [(1.5, 5), (0.5, 5)],
    "igamma igammac igamma_grad_a random_gamma_grad": (0.5, 5),
    "regularized_incomplete_beta": [(0.5, 5), (0.5, 5), (0.1, 0.9)],
    "expn": [(2, 4), (0.3, 3)],
    "hyp1f1 hyp1f1_slope": [(0.5, 3), (0.5, 3), (-2, 2)],
    "hyp2f1 hyp2f1_slope": [(0.5, 3), (0.5, 3), (0.5, 3), (-0.8, 0.7)],
}
DOMAINS = {name: domain for names, domain in SMOOTH.items() for name in names.split()}

#: Operands in which there is no derivative, which is an error, or no second one.
CONSTANT = {
    "polygamma": {0},
    "zeta": {0},
    "igamma_grad_a": {0},
    "random_gamma_grad": {0},
    "regularized_incomplete_beta": {0, 1},
    "expn": {0},
    "hyp1f1_slope": {0, 1},
    "hyp2f1_slope": {0, 1, 2},
}
CONSTANT_TWICE = CONSTANT | {
    "igamma": {0},
    "igammac": {0},
    "hyp1f1": {0, 1},
    "hyp2f1": {0, 1, 2},
    "random_gamma": {1},
}

#: Steps, whose tangents are those of the line through them.
STEPS = {"reduce_precision"}

#: Samples of a distribution, which move so that their quantile stays: not as the sampler jumps.
SAMPLED = {"random_gamma"}

#: Functions that are differences themselves, known to fewer digits.
TOLERANCE = {"igamma_grad_a": 1e-4, "random_gamma_grad": 1e-4, "igamma": 1e-4, "igammac": 1e-4}


#: Transforms that run backwards, and those that run forwards alone.
BACKWARDS = ("vjp", "grad", "grad of jit", "hessian", "vmap of grad", "grad of vmap")
FORWARDS = ("jvp", "jvp of jvp")
#: Transforms that a primitive refuses, and words of the error.
REFUSED = {
    "while": (BACKWARDS, "Reverse-mode differentiation does not work"),
    "custom_vjp_call": (FORWARDS, "can't apply forward-mode autodiff"),
    "pure_callback": (FORWARDS + BACKWARDS, "do not support JVP"),
    "io_callback": (FORWARDS + BACKWARDS, "do not support JVP"),
    "eig": (("jvp of jvp", "hessian"), "only valid under assumptions"),
}

#: Factorisations without a derivative of their own: others that have one do the same.
WITHOUT = {
    *("geqrf", "householder_product", "ormqr"),
    *("schur", "hessenberg", "tridiagonal", "cholesky_update"),
}

#: Operands that are one and the same: the matrix of a system, and of what solves it.
TWINS = {"custom_linear_solve": 4}

#: Functions of Hermitian matrices, of which they read one triangle.
HERMITIAN = {"cholesky", "eigh"}


def is_inexact(name: str) -> bool:
    return name in WIDE or name in WIDE.values()


def refuses(sample: Sample) -> bool:
    """Whether differentiation is an error, because the rule would be wrong or slow."""
    name, params = sample.primitive.name, sample.params
    if name == "scatter-mul":
        return not params["unique_indices"]  # the product of all updates but one is not at hand
    if name == "eig":  # a matrix may have too few eigenvectors
        return params["compute_left_eigenvectors"] and not params["enable_eigvec_derivs"]
    if name == "svd":  # any basis of the rest would do
        *_, m, n = sample.operands[0][0]
        return params["compute_uv"] and params["full_matrices"] and m != n
    if name in WITHOUT:
        return True
    return name == "nextafter" or (name == "scatter" and params["update_jaxpr"] is not None)


def widened(sample: Sample) -> Sample | None:
    """The sample in double precision, if it takes that."""
    domain = None if sample.domain == "any" else sample.domain
    promised = getattr(sample.params.get("mode"), "name", "") == "PROMISE_IN_BOUNDS"
    if promised and not sample.params["unique_indices"]:  # the promise is to be kept
        domain = [(0, 0) if "int" in name else None for _, name in sample.operands]
    operands = [(shape, WIDE.get(name, name)) for shape, name in sample.operands]
    if not any(name == "complex128" for _, name in operands):
        domain = DOMAINS.get(sample.primitive.name, domain)
    params = {k: wide(v) for k, v in sample.params.items()}
    made = sample._replace(operands=operands, params=params, domain=domain)
    with ga.enable_x64(True):
        try:
            made.primitive.out_avals(made.avals, made.params)
        except (TypeError, ValueError):
            return None
    return made


def wide(x: Any) -> Any:
    """A parameter in which numbers of single precision became ones of double precision."""
    if isinstance(x, np.dtype):
        return np.dtype(WIDE[x.name]) if x.name in ("float32", "complex64") else x
    if isinstance(x, ShapedArray):
        return x.update(dtype=wide(x.dtype))
    if isinstance(x, Graph):
        return wide_graph(x)
    if isinstance(x, tuple):
        each = [wide(y) for y in x]
        return type(x)(*each) if hasattr(x, "_fields") else tuple(each)
    return x


def wide_graph(graph: Graph) -> Graph:
    named: dict[Var, Var] = {}

    def atom(a: Var | Literal) -> Any:
        if isinstance(a, Literal):
            return Literal(a.val, wide(a.aval))
        return named.setdefault(a, Var(wide(a.aval)))

    eqns = [
        Eqn(
            e.primitive,
            [atom(a) for a in e.invars],
            [atom(v) for v in e.outvars],
            {k: wide(v) for k, v in e.params.items()},
        )
        for e in graph.eqns
    ]
    return Graph([atom(v) for v in graph.invars], [atom(a) for a in graph.outvars], eqns)


def distinct(found: list[Sample]) -> list[Sample]:
    """One of each: samples that say the same after a change."""
    seen: dict[str, Sample] = {}
    for s in found:
        seen.setdefault(f"{s.primitive.name} {s.operands} {s.params}", s)
    return list(seen.values())


def differentiable() -> list[Sample]:
    """Samples with a derivative: in double precision where possible."""
    found = []
    for s in samples():
        p = s.primitive
        if p.jvp is NOT_DIFFERENTIABLE or p.name in RANDOM or refuses(s):
            continue
        wide = widened(s) if any(is_inexact(d) for _, d in s.operands) else None
        if wide is not None and any(is_inexact(a.dtype.name) for a in out_avals(wide)):
            found.append(wide)
    return distinct(found)


def out_avals(sample: Sample) -> list:
    with ga.enable_x64(True):
        return sample.primitive.out_avals(sample.avals, sample.params)


def one_of_each_class() -> list[Sample]:
    """Samples that differ by more than the width of their numbers."""
    seen: dict[str, Sample] = {}
    for s in samples():
        if s.primitive.name in RANDOM or not s.operands:
            continue
        classes = [
            (shape, _kind(a.dtype)) for (shape, _), a in zip(s.operands, s.avals, strict=True)
        ]
        params = {k: v for k, v in s.params.items() if not isinstance(v, np.dtype)}
        seen.setdefault(f"{s.primitive.name} {classes} {params}", s)
    return list(seen.values())


def one_of_each(found: list[Sample]) -> list[Sample]:
    """For each primitive and kind of number, the first sample with several elements in it, or else
    the first.
    """
    first: dict[tuple, Sample] = {}
    several: dict[tuple, Sample] = {}
    for s in found:
        kinds = [_kind(a.dtype) for a in s.avals]
        key = s.primitive.name, "c" in kinds, "k" in kinds
        first.setdefault(key, s)
        if all(np.prod(shape) > 1 for shape, _ in s.operands):
            several.setdefault(key, s)
    return list((first | several).values())


def _kind(dtype: Any) -> str:
    return "k" if hasattr(dtype, "impl") else dtypes.kind_of(dtype)


def refusal(sample: Sample, transform: str) -> str:
    """Words of the error that a transform ends in; "" where it works."""
    transforms, words = REFUSED.get(sample.primitive.name, ((), ""))
    if sample.primitive.name == "eig" and sample.params["enable_eigvec_derivs"]:
        return ""  # values alone have a first derivative
    return words if transform in transforms else ""


def is_exact(sample: Sample) -> bool:
    """Whether results keep double precision, so that differences mean something."""
    name = sample.primitive.name
    wide = all(a.dtype.name in WIDE.values() for a in out_avals(sample) if is_inexact(a.dtype.name))
    return wide and name not in STEPS | SAMPLED


DIFFERENTIABLE = differentiable()
ROWS = one_of_each_class()

# ---- functions and directions ----


class Curve:
    """A sample as a function of the operands that have derivatives, and directions to go in."""

    def __init__(self, sample: Sample, constant: dict[str, set[int]] = CONSTANT):
        self.sample = sample
        name = sample.primitive.name
        self.fixed = [as_array(x, a.dtype) for x, a in zip(values(sample), sample.avals)]
        self.twins = range(1, TWINS.get(name, 1))
        without = constant.get(name, set()) | {*self.twins}
        self.places = [
            i
            for i, (_, dtype) in enumerate(sample.operands)
            if is_inexact(dtype) and i not in without
        ]
        self.rng = np.random.default_rng(len(str(sample)))

    @property
    def start(self) -> list[np.ndarray]:
        return [stored(self.fixed[i]) for i in self.places]

    def beside(self, fixed) -> Curve:
        """The same function with other operands, also in the places without a derivative."""
        twin = copy.copy(self)
        twin.fixed = list(fixed)
        return twin

    def __call__(self, *xs):
        name = self.sample.primitive.name
        args = list(self.fixed)
        for i, x in zip(self.places, xs, strict=True):
            args[i] = hermitian(x) if name in HERMITIAN else x
        for i in self.twins:
            args[i] = args[0]
        out = self.sample.primitive.bind(*args, **self.sample.params)
        found = list(out) if self.sample.primitive.multiple_results else [out]
        phases = name in PHASES and found[1:]
        if phases and any(dtypes.kind_of(y.dtype) == "c" for y in found):
            found = PHASES[name](*found)
        return [y for y in found if is_inexact(y.dtype.name)]

    def total(self, *xs):
        """One real number that depends on all results, and not linearly."""
        return sum(_height(y).sum() for y in self(*xs))

    def height(self, *parts):
        """`total` of the operands as real numbers: see `parts`."""
        given = iter(parts)
        return self.total(
            *(
                next(given) + 1j * next(given) if self._is_complex(i) else next(given)
                for i in self.places
            )
        )

    def parts(self, xs) -> list[np.ndarray]:
        """Operands as real numbers: complex ones as two arrays."""
        pairs = [(x.real, x.imag) if dtypes.kind_of(x.dtype) == "c" else (x,) for x in xs]
        return [np.ascontiguousarray(part).reshape(part.shape) for pair in pairs for part in pair]

    def _is_complex(self, place: int) -> bool:
        return self.sample.operands[place][1].startswith("complex")

    def direction(self, like) -> list[np.ndarray]:
        return [self._noise(x.shape, x.dtype) for x in like]

    def _noise(self, shape, dtype) -> np.ndarray:
        x = self.rng.uniform(-1, 1, shape)
        if dtypes.kind_of(dtype) == "c":
            x = x + 1j * self.rng.uniform(-1, 1, shape)
        return np.asarray(x, dtype)


def _height(y):
    if dtypes.kind_of(y.dtype) == "c":
        return y.real + (y.real * y.real + y.imag * y.imag) / 4
    y = y.astype("float64")
    return y + y * y / 4


def hermitian(x):
    return (x + adjoint(x)) / 2


def weighted(x, y):
    """x diag(1, 2, ...) y"""
    return (x * np.arange(1.0, x.shape[-1] + 1)) @ y


def adjoint(x):
    return x.swapaxes(-1, -2).conj()


#: Vectors of any phase, in combinations that do not depend on it.
PHASES = {
    "eigh": lambda v, w: [weighted(v, adjoint(v)), w],
    "eig": lambda w, u, v: [w, weighted(u, adjoint(u)), weighted(v, adjoint(v))],
    "svd": lambda s, u, vh: [
        *(s, weighted(u[..., : s.shape[-1]], vh[..., : s.shape[-1], :])),
        *(weighted(u, adjoint(u)), weighted(adjoint(vh), vh)),
    ],
}
