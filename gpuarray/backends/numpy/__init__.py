"""The CPU through NumPy: the reference, and the fallback everywhere."""
