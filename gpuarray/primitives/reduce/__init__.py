"""Primitives that fold axes: reductions, running folds, folds over windows."""
