"""The text of a kernel: one form for each way in which threads share the work."""
