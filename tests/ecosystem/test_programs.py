"""Libraries written for JAX: each is imported, and a typical program gives what JAX gives.

In: expected.json, which `ci/ecosystem --expected` writes in an environment with JAX. Out: a test
for each import and each program.
"""

import importlib
import json
from typing import Any

import jax
import numpy as np
import pytest

from tests.ecosystem.programs import EXPECTED, PROGRAMS, plain

IMPORTS = (
    *("blackjax", "chex", "diffrax", "distrax", "e3nn_jax", "einops", "equinox", "flax.linen"),
    *("flax.nnx", "haiku", "jaxopt", "jaxtyping", "jmp", "jraph", "lineax", "numpyro", "optax"),
    *("optimistix", "orbax.checkpoint", "tensorflow_probability.substrates.jax", "treescope"),
)
KNOWN = json.loads(EXPECTED.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def the_random_stream_of_jax():
    with jax.threefry_partitionable(True):
        yield


@pytest.mark.parametrize("name", IMPORTS)
def test_import(name):
    importlib.import_module(name)


def agree(found: Any, expected: Any, path: str, loose: bool = False) -> None:
    """Numbers within a thousandth of their array's largest; means of samplers within a fifth."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for name, value in expected.items():
            agree(found[name], value, f"{path}.{name}", loose or name == "loose")
        return
    a, b = np.asarray(found, float), np.asarray(expected, float)
    assert a.shape == b.shape, path
    scale = np.abs(b).max(initial=0)
    tolerance = 0.2 * max(scale, 0.2) if loose else 1e-3 * scale + 1e-6
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance, err_msg=path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    agree(plain(PROGRAMS[name]()), KNOWN[name], name)


def test_the_comparison_can_fail():
    with pytest.raises(AssertionError):
        agree({"x": [1.0, 2.0]}, {"x": [1.0, 2.01]}, "it")
    with pytest.raises(AssertionError):
        agree({"loose": {"x": 1.0}}, {"loose": {"x": 2.0}}, "it")
