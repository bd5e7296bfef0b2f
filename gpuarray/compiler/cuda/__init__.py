"""Kernels as CUDA C++: the schedule of each, and a template for every form."""
