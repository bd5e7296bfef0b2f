"""The few modules of `jax._src` that libraries import in spite of its name.

Floor 6. Each has just what is asked of it. Everything else below `jax._src` is missing, as
documented.
"""
