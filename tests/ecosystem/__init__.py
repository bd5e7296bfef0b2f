"""Libraries written for JAX, unmodified, on this one: their own tests, run by `ci/ecosystem`."""
