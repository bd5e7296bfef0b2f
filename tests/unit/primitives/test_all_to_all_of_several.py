"""all_to_all over several axes of vmap, against its definition element by element."""

import itertools
import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

SIZES = {"i": 2, "j": 3, "k": 2}


def exchanged(x: np.ndarray, names: tuple, mapped: tuple, s: int, c: int) -> np.ndarray:
    """Each element sends its r-th piece to element r, which joins what it gets by sender."""
    lengths = [SIZES[n] for n in mapped]
    total = math.prod(SIZES[n] for n in names)

    def rank(place):
        return np.ravel_multi_index(
            [place[mapped.index(n)] for n in names], [SIZES[n] for n in names]
        )

    out = {}
    for here in itertools.product(*map(range, lengths)):
        # Senders differ from `here` along the named axes only, in the order of their ranks.
        group = [
            p
            for p in itertools.product(*map(range, lengths))
            if all(a == b for a, b, n in zip(p, here, mapped, strict=True) if n not in names)
        ]
        group.sort(key=rank)
        out[here] = np.concatenate([np.split(x[p], total, s)[rank(here)] for p in group], c)
    first = next(iter(out.values()))
    made = np.empty((*lengths, *first.shape), x.dtype)
    for place, v in out.items():
        made[place] = v
    return made


@pytest.mark.parametrize("s, c", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(
    "names", [n for r in (2, 3) for n in itertools.permutations("ijk", r)], ids="".join
)
def test_all_to_all_over_several_axes(names, s, c):
    mapped = ("i", "j", "k")
    x = np.arange(12 * 12 * 24, dtype=np.float32).reshape(2, 3, 2, 12, 24)
    f = lambda x: ga.lax.all_to_all(x, names, s, c, tiled=True)
    for n in reversed(mapped):
        f = ga.vmap(f, axis_name=n)
    expected = exchanged(x, names, mapped, s, c)
    np.testing.assert_array_equal(f(x), expected)
    np.testing.assert_array_equal(ga.jit(f)(x), expected)
    # It moves elements, so its transpose puts them back.
    ct = gnp.asarray(np.arange(expected.size, dtype=np.float32).reshape(expected.shape))
    out, pull = ga.vjp(f, gnp.asarray(x))
    np.testing.assert_array_equal(pull(out)[0], x)
    np.testing.assert_array_equal(f(pull(ct)[0]), ct)
