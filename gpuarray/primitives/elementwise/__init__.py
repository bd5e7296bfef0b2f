"""Primitives that work element by element."""
