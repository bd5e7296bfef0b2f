"""NVIDIA GPUs through CuPy, which only this package imports. Floor 4."""
