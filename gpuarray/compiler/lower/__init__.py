"""Lower steps to kernels: choose the loop form, inline producers, split passes."""
