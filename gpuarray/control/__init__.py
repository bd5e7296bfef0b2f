"""Primitives that hold Graphs. Floor 4."""
