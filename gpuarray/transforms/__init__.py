"""Transformations of functions, which know primitives by their rules, never by name. Floor 3."""
