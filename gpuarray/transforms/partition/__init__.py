"""Partitioning: a Graph and layouts of its inputs become the Graph that every device runs."""
