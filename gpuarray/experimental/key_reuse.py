"""Keys that are used twice, which the setting `jax_debug_key_reuse` makes an error.

Floor 6. As in JAX the module is only documentation: the check is a setting, its error is in
`errors`.

>>> import gpuarray as ga
>>> with ga.debug_key_reuse(True):
...     key = ga.random.key(0)
...     first = ga.random.normal(key)
...     second = ga.random.normal(key)
Traceback (most recent call last):
    ...
gpuarray.errors.KeyReuseError: ...
"""

from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
