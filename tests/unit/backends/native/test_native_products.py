"""Products as native code: any roles and any order of axes, also of axes of one element.

In: drawn shapes, and which axes are summed, shared, or one operand's. Out: what `np.einsum` makes
of the same numbers.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support import natively

natively.need_compiler()


def drawn(rng):
    """A product as a function between other steps, its operands, and the letters for einsum."""
    count = rng.integers(0, 4, 4)
    letters = iter("abcdefghijkl")
    shared, summed, left, right = ([next(letters) for _ in range(n)] for n in count)
    length = {c: int(rng.choice([1, 1, 2, 3])) for c in "abcdefghijkl"}
    of_left = list(rng.permutation([*shared, *summed, *left]))
    of_right = list(rng.permutation([*shared, *summed, *right]))
    operands = [
        rng.integers(-4, 5, [length[c] for c in own]).astype(np.float32)
        for own in (of_left, of_right)
    ]
    numbers = (
        ([of_left.index(c) for c in summed], [of_right.index(c) for c in summed]),
        ([of_left.index(c) for c in shared], [of_right.index(c) for c in shared]),
    )

    def function(x, y):
        # Steps before and after, so that the product is inside a native call.
        z = lax.dot_general(x * 2, y + 1, numbers)
        return z, z - lax.reduce_max(z, range(z.ndim))

    result = [*shared, *(c for c in of_left if c in left), *(c for c in of_right if c in right)]
    words = f"{''.join(of_left)},{''.join(of_right)}->{''.join(result)}"
    return function, operands, words


@pytest.mark.parametrize("seed", [7, pytest.param(8, marks=pytest.mark.slow)])
def test_products_of_any_axes(seed):
    rng = np.random.default_rng(seed)
    cases = [drawn(rng) for _ in range(80)]
    programs = [natively.written(ga.jit(f).lower(*xs).jaxpr) for f, xs, _ in cases]
    natively.compile_all(programs)
    native = 0
    for (_, (x, y), words), program in zip(cases, programs, strict=True):
        wanted = np.einsum(words, x * 2, y + 1)
        found, less = program(x, y)
        # Small integers: every sum is exact.
        np.testing.assert_array_equal(found, wanted, words)
        np.testing.assert_array_equal(less, wanted - wanted.max(), words)
        native += any("ga_matmul" in k.text for k in program.kernels)
    assert native > 10


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_small_complex_products(kind, rng):
    """Numbers of two parts, in every order of the axes; rows and columns that fill no vector."""
    roles = ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ki,jk->ij"]
    sizes = [(8, 8, 8), (1, 5, 40), (5, 1, 40), (3, 30, 2), (7, 13, 33), (1, 1, 100)]
    cases = []
    for words in roles:
        for lengths in sizes:
            n = dict(zip("ijk", lengths, strict=True))
            shapes = [[n[c] for c in own] for own in words.partition("->")[0].split(",")]
            parts = (rng.integers(-4, 5, (2, *s)) for s in shapes)
            cases.append((words, [(re + 1j * im).astype(kind) for re, im in parts]))
    with ga.enable_x64(True):
        programs = [
            natively.written(
                ga.jit(lambda x, y, w=w: gnp.einsum(w, x, y) - x[0, 0]).lower(*xs).jaxpr
            )
            for w, xs in cases
        ]
    natively.compile_all(programs)
    for (words, (x, y)), program in zip(cases, programs, strict=True):
        assert not program.writer.by_host
        np.testing.assert_array_equal(program(x, y)[0], np.einsum(words, x, y) - x[0, 0], words)
