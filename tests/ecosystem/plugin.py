"""A pytest plugin: `import jax` means this library from the first moment on."""

import gpuarray

gpuarray.install_as_jax()
