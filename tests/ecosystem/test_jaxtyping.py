"""jaxtyping on this library: shapes and dtypes of our arrays and tracers in annotations."""

import jax
import jax.numpy as jnp
import jaxtyping
import pytest
from jaxtyping import Array, Bool, Float, Float32, Int, Integer, Key, PyTree, Shaped


def fits(value, annotation) -> bool:
    with jaxtyping.jaxtyped("context"):
        return isinstance(value, annotation)


@pytest.mark.parametrize(
    "value, annotation, expected",
    [
        (lambda: jnp.ones((2, 3)), Float[Array, "a b"], True),
        (lambda: jnp.ones((2, 3)), Float[Array, "a a"], False),
        (lambda: jnp.ones((2, 3)), Float[Array, "2 3"], True),
        (lambda: jnp.ones((2, 3)), Float[Array, "... 3"], True),
        (lambda: jnp.ones((2, 3)), Float[Array, "b"], False),
        (lambda: jnp.ones((2, 3)), Int[Array, "a b"], False),
        (lambda: jnp.ones(3, jnp.bfloat16), Float[Array, " n"], True),
        (lambda: jnp.ones(3, jnp.bfloat16), Float32[Array, " n"], False),
        (lambda: jnp.arange(3), Integer[Array, " n"], True),
        (lambda: jnp.arange(3) > 1, Bool[Array, " n"], True),
        (lambda: jnp.ones(()), Float[Array, ""], True),
        (lambda: jnp.ones((2, 3)), Shaped[jax.Array, "..."], True),
        (lambda: jax.random.key(0), Key[Array, ""], True),
        (lambda: jax.random.split(jax.random.key(0), 4), Key[Array, "4"], True),
        (lambda: [jnp.ones(2), {"a": jnp.ones(3)}], PyTree[Float[Array, "_"]], True),
        (lambda: [jnp.ones(2), {"a": jnp.arange(3)}], PyTree[Float[Array, "_"]], False),
        (lambda: 1.0, Float[Array, ""], False),
    ],
)
def test_isinstance(value, annotation, expected):
    assert fits(value(), annotation) is expected


def test_names_are_bound_across_arguments():
    with jaxtyping.jaxtyped("context"):
        assert isinstance(jnp.ones((2, 3)), Float[Array, "a b"])
        assert isinstance(jnp.ones((3, 2)), Float[Array, "b a"])
        assert not isinstance(jnp.ones((3, 3)), Float[Array, "b a"])


def test_tracers_are_arrays():
    seen = []

    @jax.jit
    def f(x):
        seen.append(fits(x, Float[Array, "2 3"]))
        return jax.vmap(lambda row: seen.append(fits(row, Float[Array, "3"])) or row)(x)

    f(jnp.ones((2, 3)))
    assert seen == [True, True]
