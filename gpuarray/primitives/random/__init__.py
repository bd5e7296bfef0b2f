"""Primitives that make random keys, bits and numbers."""
