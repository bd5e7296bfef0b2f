"""Updates in native calls: written over what nothing else reads, and into a copy of the rest.

In: programs with updates between other steps. Out: NumPy's values, and whether the text copies.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support import natively

natively.need_compiler()

PLACES = (np.arange(400, dtype=np.int32) * 77) % 350 * 5  # some twice
VALUES = np.arange(400, dtype=np.float32)


def added(x):
    x = np.array(x)
    np.add.at(x, PLACES, VALUES)
    return x


#: Name -> function of 2,000 numbers, NumPy's, and whether a copy is needed.
UPDATES = {
    "of what is made for it": (
        lambda x: (x * 2).at[PLACES].add(VALUES),
        lambda x: added(x * 2),
        False,
    ),
    "one after another": (
        lambda x: (x * 2).at[PLACES].add(VALUES).at[PLACES].add(VALUES) + 1,
        lambda x: added(added(x * 2)) + 1,
        False,
    ),
    "of an argument": (lambda x: x.at[PLACES].add(VALUES) * 2, lambda x: added(x) * 2, True),
    "of a result": (
        lambda x: ((y := x * 2).at[PLACES].add(VALUES), y),
        lambda x: (added(x * 2), x * 2),
        True,
    ),
    "of what is read later": (
        lambda x: (y := gnp.cumsum(x * 2)).at[PLACES].add(VALUES) + y[::-1],
        lambda x: added(np.cumsum(x * 2)) + np.cumsum(x * 2)[::-1],
        True,
    ),
    "by what it holds": (
        lambda x: (y := gnp.cumsum(x * 0 + 1)).at[PLACES].add(y[:400]),
        lambda x: by_itself(np.cumsum(x * 0 + 1)),
        True,
    ),
    "of a view that is a result": (
        lambda x: ((y := x * 2).at[PLACES].add(VALUES), y.reshape(40, 50)),
        lambda x: (added(x * 2), (x * 2).reshape(40, 50)),
        True,
    ),
}


def by_itself(y):
    found = np.array(y)
    np.add.at(found, PLACES, y[:400])
    return found


@pytest.mark.parametrize("name", UPDATES)
def test_updates(name, rng):
    function, reference, copies = UPDATES[name]
    x = rng.integers(-5, 6, 2000).astype(np.float32)
    # A second step makes it one call.
    both = lambda x: (function(x), lax.fori_loop(0, 3, lambda i, s: s + 1, x[:8]))
    program = natively.written(ga.jit(both).lower(x).jaxpr)
    natively.compile_all([program])
    wanted = reference(x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for found, right in zip(program(x), wanted):
        np.testing.assert_array_equal(found, right)
    texts = "".join(k.text for k in program.kernels)
    assert ("ga_copy<2000>" in texts or "_copy(" in texts) == copies, texts


def test_updates_in_a_loop(rng):
    x = rng.integers(-5, 6, 2000).astype(np.float32)

    def step(i, x):
        y = x * 2
        return y.at[PLACES + i].add(VALUES) - y[i]

    program = natively.written(ga.jit(lambda x: lax.fori_loop(0, 7, step, x)).lower(x).jaxpr)
    natively.compile_all([program])
    wanted = x
    for i in range(7):
        y = wanted * 2
        wanted = np.array(y)
        # Beyond the end nothing is written.
        inside = PLACES + i < 2000
        np.add.at(wanted, (PLACES + i)[inside], VALUES[inside])
        wanted = wanted - y[i]
    np.testing.assert_array_equal(program(x)[0], wanted)


@pytest.mark.parametrize("n", [1024, 5000])
@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
def test_single_updates_at_places_that_are_computed(n, kind, rng):
    """Blocks of places and values first; some places are outside, and sums keep their order."""
    x, y = (rng.normal(4, 3, n).astype(np.float32) for _ in range(2))
    w = rng.normal(0, 9, n).astype(kind)

    def histogram(x, y, w):
        i, j = (gnp.floor(a * 1.5 + 0.25).astype("int32") for a in (x, y))
        return gnp.zeros((12, 9), kind).at[i, j].add(w * 2, mode="drop") + 0

    program = natively.written(ga.jit(histogram).lower(x, y, w).jaxpr)
    natively.compile_all([program])
    assert any("places[k]" in k.text for k in program.kernels)
    wanted = np.zeros((12, 9), kind)
    i, j = (np.floor(a * np.float32(1.5) + np.float32(0.25)).astype(int) for a in (x, y))
    for a, b, c in zip(np.where(i < 0, i + 12, i), np.where(j < 0, j + 9, j), w * 2, strict=True):
        if 0 <= a < 12 and 0 <= b < 9:
            wanted[a, b] += c
    np.testing.assert_array_equal(program(x, y, w)[0], wanted)


def test_updates_of_known_slices_are_vectorised_without_a_search(rng):
    x, y = rng.standard_normal((2, 40, 50)).astype(np.float32)

    def f(x, y):
        x = x.at[1:, :-1].add(y[1:, 1:]).at[2:-2].mul(y[2:-2] + 1)
        # The last is out of bounds: nothing is updated.
        return x.at[0].set(7.0).at[50].add(1.0) * 2

    program = natively.written(ga.jit(f).lower(x, y).jaxpr)
    assert not any("ga_find(" in k.text for k in program.kernels)
    natively.compile_all([program])
    wanted = x.copy()
    wanted[1:, :-1] += y[1:, 1:]
    wanted[2:-2] *= y[2:-2] + 1
    wanted[0] = 7
    np.testing.assert_array_equal(program(x, y)[0], wanted * 2)
