"""Every sampler on a GPU: one kernel where each number has bits of its own, listed where not.

In: every public function of gpuarray.random. Out: what `ga.explain` says of it, and the same
numbers from the kernels, run by the simulator, as on the CPU.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import random
from gpuarray.core.element_rules import rule_of
from tests.samples import samples
from tests.support import simulated

simulated.need_compiler()

N = (37, 5)
LOGITS = np.linspace(-1, 1, 30, dtype=np.float32).reshape(6, 5)
CHANCES = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
MEANS = np.array([0.3, 3.0, 8.0, 40.0], np.float32)
SHAPES = np.array([0.2, 1.0, 3.0], np.float32)
TABLE = np.arange(20.0, dtype=np.float32).reshape(10, 2)

#: One kernel, whatever uses the numbers.
ONE_KERNEL = {
    "ball": lambda key: random.ball(key, 3, 1.5, (20,)),
    "bernoulli": lambda key: random.bernoulli(key, CHANCES[:, None], (4, 9)),
    "bernoulli, high": lambda key: random.bernoulli(key, 0.3, N, mode="high"),
    "beta": lambda key: random.beta(key, 2.0, 0.5, N),
    "bits": lambda key: random.bits(key, N),
    "bits, narrow": lambda key: random.bits(key, N, "uint8"),
    "categorical": lambda key: random.categorical(key, LOGITS, shape=(40, 6)),
    "cauchy": lambda key: random.cauchy(key, N),
    "chisquare": lambda key: random.chisquare(key, 3.0, N),
    "choice": lambda key: random.choice(key, 10, N),
    "choice, of rows": lambda key: random.choice(key, TABLE, (7,)),
    "dirichlet": lambda key: random.dirichlet(key, SHAPES, (20,)),
    "double_sided_maxwell": lambda key: random.double_sided_maxwell(key, 1.0, 2.0, N),
    "exponential": lambda key: random.exponential(key, N),
    "f": lambda key: random.f(key, 3.0, 5.0, N),
    "fold_in": lambda key: random.key_data(random.fold_in(key, 7)),
    "gamma": lambda key: random.gamma(key, SHAPES, (20, 3)),
    "gamma, half": lambda key: random.gamma(key, 2.5, N, "bfloat16"),
    "gamma, of many keys": lambda key: ga.vmap(random.gamma)(
        random.split(key, 9), SHAPES.repeat(3)
    ),
    "generalized_normal": lambda key: random.generalized_normal(key, 3.0, N),
    "geometric": lambda key: random.geometric(key, 0.2, N),
    "gumbel": lambda key: random.gumbel(key, N),
    "gumbel, high": lambda key: random.gumbel(key, N, mode="high"),
    "laplace": lambda key: random.laplace(key, N),
    "loggamma": lambda key: random.loggamma(key, SHAPES, (20, 3)),
    "loggamma, half": lambda key: random.loggamma(key, 0.5, N, "float16"),
    "logistic": lambda key: random.logistic(key, N),
    "lognormal": lambda key: random.lognormal(key, 0.5, N),
    "maxwell": lambda key: random.maxwell(key, N),
    "normal": lambda key: random.normal(key, N),
    "normal, complex": lambda key: random.normal(key, N, "complex64"),
    "normal, half": lambda key: random.normal(key, N, "bfloat16"),
    "pareto": lambda key: random.pareto(key, 2.0, N),
    "rademacher": lambda key: random.rademacher(key, N),
    "randint": lambda key: random.randint(key, N, -3, 100),
    "randint, narrow": lambda key: random.randint(key, N, 0, 10, "int8"),
    "rayleigh": lambda key: random.rayleigh(key, 2.0, N),
    "split": lambda key: random.key_data(random.split(key, 11)),
    "t": lambda key: random.t(key, 3.0, N),
    "triangular": lambda key: random.triangular(key, 0.0, 1.0, 3.0, N),
    "truncated_normal": lambda key: random.truncated_normal(key, -1.0, 2.0, N),
    "uniform": lambda key: random.uniform(key, N, minval=2.0, maxval=3.0),
    "uniform, of many keys": lambda key: ga.vmap(random.uniform)(random.split(key, 9)),
    "wald": lambda key: random.wald(key, 2.0, N),
    "weibull_min": lambda key: random.weibull_min(key, 1.0, 2.0, N),
}

#: Why some are several steps, and which of these are no kernels.
WAITING = "a number depends on how long the slowest of all is drawn for, as in JAX", {"while"}
SEVERAL = {
    "binomial": (lambda key: random.binomial(key, 20.0, CHANCES), *WAITING),
    "choice, with chances": (
        lambda key: random.choice(key, 4, N, p=CHANCES),
        "the chances are summed up before anybody looks among them",
        set(),
    ),
    "choice, no row twice": (
        lambda key: random.choice(key, TABLE, (7,), replace=False),
        "numbers are sorted, and then say which rows to take",
        set(),
    ),
    "multinomial": (
        lambda key: random.multinomial(key, 50, CHANCES, shape=(20, 4)),
        "each category has what those before it have left",
        {"scan"},
    ),
    "multivariate_normal": (
        lambda key: random.multivariate_normal(key, SHAPES, np.eye(3, dtype=np.float32), (20,)),
        "the covariance is factored, and vectors are multiplied by it and added to the mean",
        {"cholesky", "product_add"},
    ),
    "orthogonal": (
        lambda key: random.orthogonal(key, 3, (5,)),
        "matrices are factored",
        {"qr"},
    ),
    "permutation": (
        lambda key: random.permutation(key, TABLE),
        "numbers are sorted, and then say which rows to take",
        set(),
    ),
    "poisson": (lambda key: random.poisson(key, MEANS), *WAITING),
}
#: What only makes or names keys.
NO_SAMPLERS = {
    "PRNGKey", "clone", "key", "key_data", "key_dtype", "key_impl", "random_gamma_p",
    "wrap_key_data",
}  # fmt: skip


def test_the_tables_name_every_sampler():
    named = {name.partition(",")[0] for name in (*ONE_KERNEL, *SEVERAL)}
    public = {
        name
        for name, value in vars(random).items()
        if not name.startswith("_") and type(value).__name__ != "module"
    }
    assert named | NO_SAMPLERS == public


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name):
    explained = ga.explain(ONE_KERNEL[name], platform="cuda")(random.key(1))
    assert not explained.library_calls and explained.launches == 1, explained


OF_ONE_HASH = ["philox2x32", "philox4x32", "threefry4x32"]
#: Samplers by rejection, with a key for each element.
REJECTING = ["ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "t"]


@pytest.mark.parametrize("name", ["bits", "double_sided_maxwell", "randint", "split", *REJECTING])
@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg", *OF_ONE_HASH])
def test_one_kernel_with_another_generator(name, impl):
    explained = ga.explain(ONE_KERNEL[name], platform="cuda")(random.key(1, impl=impl))
    assert not explained.library_calls and explained.launches == 1, explained


@pytest.mark.parametrize("name", SEVERAL)
def test_several_steps(name):
    function, reason, steps = SEVERAL[name]
    explained = ga.explain(function, platform="cuda")(random.key(1))
    assert explained.launches > 1, f"no longer: {reason}"
    assert {op for call in explained.library_calls for op in call.ops} == steps, reason


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("stream", [False, True], ids=["original", "partitionable"])
def test_the_same_numbers_as_on_the_cpu(stream, part):
    ga.config.update("jax_threefry_partitionable", stream)
    functions = ONE_KERNEL | {name: function for name, (function, *_) in SEVERAL.items()}
    functions = dict(list(functions.items())[part::3])
    words = np.array([0, 3], np.uint32)
    compare_with_the_cpu(functions, words, "threefry2x32")


#: Streams whose words are pairs half a stream apart, which one thread draws, and others.
HALVES = {
    "of one axis": lambda key: random.bits(key, (2056,)),
    "of two": lambda key: random.bits(key, (8, 33)),
    "of 16 bits": lambda key: random.bits(key, (8, 20), "uint16"),
    "of 8 bits": lambda key: random.bits(key, (64,), "uint8"),
    "twice": lambda key: random.bits(key, (64,)) ^ random.bits(random.fold_in(key, 1), (64,)),
    "with an array": lambda key: random.normal(key, (16, 4)) + np.arange(4, dtype=np.float32),
}
NO_HALVES = {
    "of odd size": lambda key: random.bits(key, (63,)),
    "of odd halves": lambda key: random.bits(key, (74,)),
    "of odd words": lambda key: random.bits(key, (36,), "uint8"),
    "a part": lambda key: random.bits(key, (64,))[:32] + gnp.arange(32, dtype="uint32"),
    "backwards": lambda key: random.bits(key, (64,))[::-1] ^ random.bits(key, (64,)),
}


def test_a_thread_draws_both_words_of_a_pair():
    halved = lambda f: "ga_random_half_bits" in ga.jit(f).lower(random.key(1)).cuda_source()
    assert all(map(halved, HALVES.values()))
    assert not any(halved(f) for name, f in NO_HALVES.items() if name.startswith("of odd"))
    words = np.array([5, 7], np.uint32)
    compare_with_the_cpu(HALVES | NO_HALVES, words, "threefry2x32")
    with ga.enable_x64(True):
        wide = {"wide": lambda key: random.bits(key, (7,), "uint64")}
        compare_with_the_cpu(wide, words, "threefry2x32")


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_the_same_numbers_from_other_generators(impl):
    functions = {name: ONE_KERNEL[name] for name in ("gamma", "loggamma, half", "normal", "split")}
    compare_with_the_cpu(functions, np.arange(4, dtype=np.uint32), impl)


@pytest.mark.parametrize("impl", OF_ONE_HASH)
def test_the_same_numbers_from_generators_of_one_hash(impl):
    several = (
        "bits",
        "dirichlet",
        "gamma",
        "gamma, of many keys",
        "loggamma, half",
        "normal",
        "split",
    )
    functions = {name: ONE_KERNEL[name] for name in several} | {
        "fold_in": lambda key: random.key_data(random.fold_in(key, 9)),
        "narrow": lambda key: random.bits(key, (3, 5), "uint8"),
        "seed": lambda key: random.key_data(random.key(random.bits(key, ()), impl=impl)),
    }
    words = np.arange(3, 3 + random.key_data(random.key(0, impl=impl)).size, dtype=np.uint32)
    compare_with_the_cpu(functions, words, impl)
    with ga.enable_x64(True):
        wide = {"wide": lambda key: random.bits(key, (7,), "uint64")}
        compare_with_the_cpu(wide, words, impl)


def test_gamma_numbers_of_any_dtype_and_shape_parameter():
    ends = gnp.array([np.nan, -1, 0, np.inf, 1e-6, 1, 80])
    kinds = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32")
    functions = {
        f"{kind}, {log}": lambda key, kind=kind, log=log: (
            (random.loggamma if log else random.gamma)(key, ends.astype(kind), dtype=kind)
        ).astype("float32")
        for kind in kinds
        for log in (False, True)
    }
    compare_with_the_cpu(functions, np.array([0, 3], np.uint32), "threefry2x32")
    with ga.enable_x64(True):
        wide = {"gamma": lambda key: random.gamma(key, SHAPES, (20, 3), "float64")}
        compare_with_the_cpu(wide, np.array([0, 3], np.uint32), "threefry2x32")


def compare_with_the_cpu(functions, words, impl):
    def of_words(function):
        return ga.jit(lambda words: function(random.wrap_key_data(words, impl=impl)))

    # All before the first runs: they are compiled in one go.
    built = {
        name: simulated.built(of_words(function).lower(words).jaxpr)
        for name, function in functions.items()
    }
    for name, function in functions.items():
        (found,) = simulated.run(built[name], [words])
        expected = np.asarray(function(random.wrap_key_data(words, impl=impl)))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        if expected.dtype.kind in "biu" or name == "binomial":
            np.testing.assert_array_equal(found, expected, name)
        else:
            rtol = 1e-2 if expected.dtype.itemsize == 2 else 2e-5
            np.testing.assert_allclose(
                found.astype(complex), expected.astype(complex), rtol, 1e-6, err_msg=name
            )


#: Functions of hashes in a text, which has those that it calls.
HASHES = re.compile(r"GA_INLINE \w+ ga_(threefry|philox)\w*\(")
DRAWING = [
    s
    for s in samples(lambda p: p.name.startswith(("random_", "rng_", "threefry")))
    if all(a.size for a in s.avals)
]


@pytest.mark.parametrize("sample", DRAWING, ids=str)
def test_what_hashes_costs_a_hash(sample):
    """Else kernels would hash again for each of their elements what is hashed once."""
    lowered = ga.jit(lambda *xs: sample.primitive.bind(*xs, **sample.params)).lower(*sample.avals)
    (eqn,) = lowered.jaxpr.eqns
    rule = rule_of(eqn)
    if rule is not None and HASHES.search(lowered.cpp_source()):
        assert rule.cost_of(eqn) >= 80
