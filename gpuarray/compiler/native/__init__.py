"""Kernels as C++ loops for a CPU."""
