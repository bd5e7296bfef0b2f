"""From a Graph to kernels: pipeline.py lists the passes in the order in which they run.

Floor 3. The rooms are floors too: target, rewrite, partition, fuse, lower, text, cuda, check,
pipeline and explain.
"""
