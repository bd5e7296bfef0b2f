"""Steps to kernels: the loop form of each, what it computes where it reads, how it is split."""
