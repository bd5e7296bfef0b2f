"""Benchmarks, side by side in one run: ours fused and unfused, NumPy, and JAX and PyTorch where installed.

`python -m bench` runs them and writes figures, a table and a picture; `pytest bench` runs the same
workloads under pytest-benchmark. Part of the checkout, not of the package.
"""
