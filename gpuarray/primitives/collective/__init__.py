"""Primitives between the elements along a named axis."""
