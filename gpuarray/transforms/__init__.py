"""Transformations of functions: they know the rules of primitives, never an op by name. Floor 3."""
