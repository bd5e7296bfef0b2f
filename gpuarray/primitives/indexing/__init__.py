"""Primitives that read and write at positions given by arrays of indices."""
