"""Special functions where digits are easily lost: by NumPy's rules, in native code and in kernels.

The reference is SciPy.
"""

from __future__ import annotations

import numpy as np
from scipy import special as sp

import gpuarray as ga
from gpuarray import lax
from tests.support import everywhere

everywhere.need_compiler()


def test_erf_inv_of_doubles_near_1():
    """1 - x² has few digits there unless it is of factors: JAX errs by 5e5 units."""
    x = 1 - np.geomspace(2.0**-53, 1, 20_000)
    ends = np.array([1.0, -1.0, 1.5, np.nan])
    with ga.enable_x64(True):
        middle, last = everywhere.computed([(lax.erf_inv, (x,)), (lax.erf_inv, (ends,))])
    for way in everywhere.WAYS:
        np.testing.assert_allclose(middle[way][0], sp.erfinv(x), 3e-15, err_msg=way)
        np.testing.assert_array_equal(last[way][0], [np.inf, -np.inf, np.nan, np.nan], way)
