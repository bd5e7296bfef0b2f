"""Primitives that read and write where arrays of indices say."""
