"""Samples of what scipy.special brings: integrals, hypergeometric functions."""

from __future__ import annotations

# The primitives that these rows are about load with their namespace, not with the package.
import gpuarray.primitives.elementwise.hypergeometric
import gpuarray.primitives.elementwise.integrals  # noqa: F401
from tests.samples import Table
from tests.samples_pointwise import COMPLEXES, FLOATS

SAMPLES: Table = {}


def rows(names: str, kinds: list[str], *, arity: int = 1, domain: object = "any", **params) -> None:
    """Some shapes in the first dtype, one shape in each other."""
    some = [(), (0,), (1,), (2, 3)]
    for name in names.split():
        for i, dtype in enumerate(kinds):
            for shape in some if i == 0 else [(2, 3)]:
                row = [(shape, dtype)] * arity, params, domain
                SAMPLES.setdefault(name, []).append(row)
        if arity > 1:
            SAMPLES[name].append(
                ([((2, 1), FLOATS[0])] + [((1, 3), FLOATS[0])] * (arity - 1), params, domain)
            )


rows("gamma expi sine_integral cosine_integral fresnel_sin fresnel_cos dawsn erfcx", FLOATS)
rows("spence", FLOATS, domain=(0, 9))
rows("wofz", COMPLEXES, domain=None)
rows("expn", FLOATS, arity=2, domain=[(0, 4), (0.1, 9)])
rows("owens_t", FLOATS, arity=2, domain=(-3, 3))
rows("hyp1f1", FLOATS, arity=3, domain=[(-2, 3), (0.3, 4), (-9, 9)])
rows("hyp2f1", FLOATS, arity=4, domain=[(-2, 3), (-2, 3), (0.3, 4), (-2, 0.95)])
for _of in range(2):
    rows("hyp1f1_slope", FLOATS, arity=3, domain=[(0.3, 3), (0.3, 4), (-3, 3)], of=_of)
for _of in range(3):
    rows("hyp2f1_slope", FLOATS, arity=4, domain=[(0.3, 3), (0.3, 3), (0.3, 4), (-1, 0.8)], of=_of)
