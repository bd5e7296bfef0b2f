"""Generators that keep their state: numbers are those of keys, the state goes along."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random
from gpuarray.experimental.random import StatefulPRNG, stateful_rng

KEY = random.key(42)
X, TOPS = gnp.arange(3.0), gnp.array([2.0, 5.0])
FOLDED = [random.fold_in(KEY, i) for i in range(3)]


def test_draws_are_those_of_folded_keys():
    rng = stateful_rng(42)
    assert (rng.key() == FOLDED[0]) and rng.key() == FOLDED[1]
    np.testing.assert_array_equal(
        random.key_data(rng.key((2, 3))), random.key_data(random.split(FOLDED[2], (2, 3)))
    )
    assert int(rng._counter[...]) == 3 and rng._base_key == KEY
    for draw, expected in [
        (lambda r: r.random((2,), gnp.float16), random.uniform(FOLDED[0], (2,), gnp.float16)),
        (lambda r: r.uniform(1, TOPS), random.uniform(FOLDED[0], (2,), float, 1, TOPS)),
        (lambda r: r.normal(3.0, 2.0, size=4), 3 + 2 * random.normal(FOLDED[0], (4,))),
        (lambda r: r.integers(7, size=5), random.randint(FOLDED[0], (5,), 0, 7)),
        (lambda r: r.integers(-2, 7, dtype="int8"), random.randint(FOLDED[0], (), -2, 7, "int8")),
    ]:
        found = draw(stateful_rng(42))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "run",
    [
        lambda rng: gnp.array([ga.jit(rng.uniform)() for _ in range(3)]),
        lambda rng: gnp.array([ga.jit(lambda r: r.uniform())(rng) for _ in range(3)]),
        lambda rng: lax.scan(lambda c, _: (c, rng.uniform()), None, length=3)[1],
        lambda rng: ga.jit(lambda: lax.map(lambda _: rng.uniform(), gnp.arange(3)))(),
    ],
)
def test_the_state_goes_through_transformed_functions(run):
    rng = stateful_rng(42)
    np.testing.assert_array_equal(run(rng), [random.uniform(k) for k in FOLDED])
    assert int(rng._counter[...]) == 3


def test_children_are_independent_and_mapped():
    children = stateful_rng(42).spawn(4)
    assert len({tuple(random.key_data(c._base_key).tolist()) for c in children}) == 4
    several = stateful_rng(42).split(4)
    assert several._counter.shape == (4,)
    x = gnp.arange(4.0)
    np.testing.assert_array_equal(
        ga.vmap(lambda rng, x: x + rng.uniform())(several, x),
        x + gnp.array([c.uniform() for c in children]),
    )
    with pytest.raises(ValueError, match="cannot operate on split stateful generator"):
        several.key()


def test_without_a_seed():
    assert stateful_rng().uniform() != stateful_rng().uniform()
    draw = lambda x: x + stateful_rng().uniform()
    for call in (lambda: ga.jit(draw)(1.0), lambda: ga.grad(draw)(1.0), lambda: ga.vmap(draw)(X)):
        with pytest.raises(TypeError, match="requires an explicit seed"):
            call()


def test_what_it_is_made_of():
    with pytest.raises(ValueError, match="Expected base_key to be a typed PRNG key"):
        StatefulPRNG(random.PRNGKey(0), ga.new_ref(0))
    with pytest.raises(ValueError, match="Expected counter to be a scalar integer ref"):
        StatefulPRNG(KEY, gnp.zeros((), int))  # pyright: ignore[reportArgumentType]
    leaves = ga.tree.leaves(stateful_rng(42))
    assert leaves[0] == KEY and isinstance(leaves[1], ga.Ref)
    assert repr(stateful_rng(1)).startswith("StatefulPRNG(_base_key=Array((), dtype=key<fry>)")
