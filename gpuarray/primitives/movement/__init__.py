"""Primitives that move elements without computing, and those that create arrays."""
