"""Primitives that move elements and compute nothing, and those that make arrays."""
