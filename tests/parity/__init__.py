"""Parity harness: gpuarray against JAX on the CPU, call by call, in one process.

Run `python -m tests.parity` where both packages import. Every case is one Python expression over
the names of `data.environment`, evaluated once with each library and compared (`compare.py`):
value, shape, dtype, weak type, or the type of the error. `recipes/` holds the expressions, one
table per namespace; `exceptions.toml` says why a known disagreement stands.
"""
