"""What the tutorials' tests share: the stream of random numbers that JAX draws by default."""

import pytest

import gpuarray as jax


@pytest.fixture(autouse=True)
def partitionable_stream():
    """Draw as JAX does out of the box; the founding texts' numbers come from the older stream."""
    jax.config.update("jax_threefry_partitionable", True)
