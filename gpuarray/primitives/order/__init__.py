"""Primitives that sort and search."""
