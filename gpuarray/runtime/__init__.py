"""Arrays, devices, lazy evaluation and the compile cache. Floor 5."""
