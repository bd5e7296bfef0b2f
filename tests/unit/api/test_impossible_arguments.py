"""Arguments that no function can do anything with: numbers beyond 64 bits, sizes beyond memory,
values of the wrong type. Each is an error at the call that says what was given.
"""

from typing import Any

import numpy as np
import pytest

import gpuarray

ga: Any = gpuarray  # the types of arguments are what these tests get wrong
gnp, lax = ga.numpy, ga.lax
HUGE = 2**70
X, I, M = gnp.arange(6.0), gnp.arange(6), gnp.ones((2, 3))
WEAK, KEY = gnp.asarray(1.0), ga.random.key(0)

NUMBERS = [
    *(lambda n: X + n, lambda n: n - X, lambda n: X * n, lambda n: X < n, lambda n: I + n),
    *(lambda n: WEAK + n, lambda n: n * WEAK, lambda n: I == n, lambda n: I & n),
    *(lambda n: gnp.maximum(X, n), lambda n: gnp.where(True, I, n), lambda n: gnp.sin(n)),
    *(lambda n: gnp.clip(X, 0, n), lambda n: gnp.asarray(n), lambda n: gnp.full(3, n)),
    *(lambda n: gnp.full_like(I, n), lambda n: lax.full((2,), n, "int32"), lambda n: gnp.int32(n)),
    *(lambda n: X.at[0].set(n), lambda n: I.at[0].add(n), lambda n: ga.jit(lambda y: X + n)(1)),
    *(lambda n: ga.jit(lambda y: y)(n), lambda n: lax.while_loop(lambda c: c < 3, lambda c: c, n)),
    *(lambda n: X[n], lambda n: X[-n], lambda n: M[0, n], lambda n: X.at[n].set(1)),
    *(lambda n: X.at[n].get(), lambda n: gnp.take(X, n), lambda n: gnp.tril(M, n)),
    *(lambda n: gnp.tri(3, 3, n), lambda n: gnp.diagonal(M, n)),
    *(lambda n: gnp.trace(M, n), lambda n: gnp.zeros(n), lambda n: gnp.ones((2, n))),
    *(lambda n: gnp.arange(n), lambda n: gnp.linspace(0, 1, n), lambda n: gnp.tile(X, n)),
    *(lambda n: gnp.pad(X, n), lambda n: gnp.broadcast_to(X, (n, 6)), lambda n: gnp.fft.fft(X, n)),
    *(lambda n: gnp.bincount(I, length=n), lambda n: ga.random.normal(KEY, (n,))),
    *(lambda n: ga.random.poisson(KEY, n), lambda n: ga.nn.leaky_relu(X, n)),
]


#: What takes a value as it is: no operation looks at its dtype first.
TAKING: dict[str, Any] = {
    "jit": lambda v: ga.jit(lambda a: a)(v),
    "vmap": lambda v: ga.vmap(lambda a: a)(v),
    "eval_shape": lambda v: ga.eval_shape(lambda a: a, v),
    "device_put": lambda v: ga.device_put(v),
    "cond": lambda v: lax.cond(True, lambda a: a, lambda a: a, v),
    "scan": lambda v: lax.scan(lambda c, _: (c, None), v, None, length=1),
    "shard_map": lambda v: ga.shard_map(
        lambda a: a, mesh=ga.make_mesh((1,), ("x",)), in_specs=ga.P(), out_specs=ga.P()
    )(v),
    "a closed over value": lambda v: ga.jit(lambda: v)(),
    "a sum": lambda v: X[:2] + v,
}

NO_ARRAYS = ["U1", "S3", "M8[s]", "m8[s]", "V4", [("a", "f4")], ">f4", ">i8", "longdouble", "O"]


@pytest.mark.parametrize("name", TAKING)
def test_a_dtype_that_no_array_has(name):
    for dtype in NO_ARRAYS:
        with pytest.raises(TypeError):
            TAKING[name](np.zeros(2, dtype))


def test_numbers_of_another_dtype_say_how_to_convert_them():
    for dtype, wanted in (
        (">i4", "int32"),
        ("longdouble", "float32"),
        ("clongdouble", "complex64"),
    ):
        with pytest.raises(TypeError, match=f"valid JAX array type.*{wanted}"):
            ga.device_put(np.zeros(2, dtype))


@pytest.mark.parametrize("number", range(len(NUMBERS)))
def test_an_int_beyond_64_bits_is_an_overflow(number):
    with pytest.raises(OverflowError):
        NUMBERS[number](HUGE)


def test_numbers_of_64_bits_are_floats_beside_floats():
    assert (X + 2**63)[0] == 2.0**63 and (X - 2**63)[0] == -(2.0**63)
    assert (gnp.ones(2, "float16") * 2**40)[0] == gnp.inf
    assert gnp.roll(X, HUGE).tolist() == gnp.roll(X, HUGE % 6).tolist()


SIZES = [
    lambda n: gnp.repeat(X, 2, total_repeat_length=n),
    lambda n: gnp.repeat(X, n),
    lambda n: gnp.nonzero(I, size=n),
    lambda n: gnp.argwhere(I, size=n),
    lambda n: gnp.flatnonzero(I, size=n),
    lambda n: gnp.unique(I, size=n),
    lambda n: gnp.union1d(I, I, size=n),
    lambda n: gnp.setdiff1d(I, I, size=n),
    lambda n: gnp.extract(I > 2, I, size=n),
    lambda n: gnp.bincount(I, length=n),
    lambda n: gnp.linspace(0, 1, n),
    lambda n: gnp.zeros(n),
    lambda n: gnp.eye(n),
    lambda n: gnp.tile(X, n),
    *(lambda n, m=m: gnp.pad(X, n, mode=m) for m in ("constant", "edge", "wrap", "linear_ramp")),
    lambda n: gnp.fft.fft(X, n),
    lambda n: gnp.fft.irfft(X, n),
    lambda n: gnp.histogram_bin_edges(X, n),
    lambda n: gnp.hanning(n),
    lambda n: ga.scipy.fft.dct(X, n=n),
    lambda n: lax.iota("int32", n),
    lambda n: ga.random.normal(KEY, (n,)),
    lambda n: ga.nn.one_hot(I, n),
    lambda n: ga.ops.segment_sum(X, I, n),
]


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_a_size_beyond_memory_says_so(number):
    with pytest.raises((ga.errors.OutOfMemory, OverflowError)):
        SIZES[number](2**47)


WRONG = [
    (lambda: ga.checkpoint(lambda y: y, policy="everything"), "everything.*checkpoint_policies"),
    (lambda: ga.remat(lambda y: y, policy=3), "policy must be a function"),
    (lambda: ga.checkpoint(lambda y: y, static_argnums="a")(X), "static_argnums.*'a'"),
    (lambda: ga.grad(lambda y: y.sum(), argnums="a")(X), "argnums.*'a'"),
    (lambda: ga.grad(lambda y: y.sum(), argnums=1.5)(X), "argnums.*1.5"),
    (lambda: ga.jacfwd(lambda y: y, argnums="a")(X), "argnums.*'a'"),
    (lambda: ga.hessian(lambda y: y.sum(), argnums="a")(X), "argnums.*'a'"),
    (lambda: ga.jit(lambda y: y, static_argnums="a"), "static_argnums.*'a'"),
    (lambda: ga.jit(lambda y: y, donate_argnums=1.5), "donate_argnums.*1.5"),
    (lambda: ga.make_jaxpr(lambda y: y, static_argnums="a")(X), "static_argnums.*'a'"),
    (lambda: ga.vmap(lambda y: y, in_axes="a")(X), "in_axes.*got a"),
    (lambda: ga.custom_jvp(lambda y: y, nondiff_argnums="a"), "nondiff_argnums.*'a'"),
    (lambda: ga.custom_vjp(lambda y: y, nondiff_argnums=1.5), "nondiff_argnums.*1.5"),
    (lambda: ga.custom_jvp(lambda y: y).defjvp(3), "defjvp.*function, got 3"),
    (lambda: ga.custom_jvp(lambda y: y).defjvps(3), "defjvps.*function, got 3"),
    (lambda: ga.custom_vjp(lambda y: y).defvjp(3, 4), "defvjp.*function, got 3"),
    (lambda: lax.scan(lambda c, _: (c, None), 0, None, 3, unroll="a"), "unroll.*'a'"),
    (lambda: lax.scan(lambda c, _: (c, None), 0, None, 3, unroll=[1]), r"unroll.*\[1\]"),
    (lambda: lax.scan(lambda c, _: (c, None), 0, None, "a"), "length.*'a'"),
    (lambda: lax.fori_loop(0, 3, lambda i, c: c, 0, unroll="a"), "unroll.*'a'"),
    (lambda: lax.map(lambda y: y, X, batch_size="a"), "batch_size.*'a'"),
    (lambda: lax.switch(0, 3), "callables, got 3"),
    (lambda: gnp.pad(X, "a"), "integral type, got 'a'"),
    (lambda: gnp.pad(X, 1.5), "integral type, got 1.5"),
    (lambda: lax.cumsum(X, axis="a"), "`axis` must be an int, got 'a' of type str"),
    (lambda: X.sum(axis=1.5), "`axis` must be an int, got 1.5 of type float"),
    (lambda: gnp.fft.fft(X, n=1.5), "`n` must be an int, got 1.5 of type float"),
    (lambda: gnp.transpose(M, ("a", 1)), "`axes` must be an int, got 'a' of type str"),
    (lambda: gnp.eye(3, k=1.5), "`k` must be an int, got 1.5 of type float"),
    (lambda: ga.vmap(lambda y: y, axis_name=[1]), r"`axis_name` must be.*got \[1\] of type list"),
    (lambda: lax.dot(M, M, dimension_numbers="a"), "`dimension_numbers` must be.*got 'a'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_value_of_the_wrong_type_is_named(number):
    run, words = WRONG[number]
    with pytest.raises(TypeError, match=words):
        run()


def test_an_assignment_says_what_to_do_instead():
    with pytest.raises(TypeError, match=r"x.at\[idx\].set\(y\).*numpy.asarray\(x\)"):
        X[0] = 1
