"""Primitives that communicate along a named axis."""
