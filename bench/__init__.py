"""Benchmarks, side by side in one run: gpuarray fused and unfused, NumPy, JAX, PyTorch.

`python -m bench` runs them and writes figures, a table and a picture; `pytest bench` runs the same
workloads under pytest-benchmark. Part of the checkout, not of the package.
"""
