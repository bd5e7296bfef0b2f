"""Primitives on matrices: factorisations and systems of equations."""
