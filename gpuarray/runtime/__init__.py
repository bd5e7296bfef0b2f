"""Arrays, devices, lazy evaluation, the compile cache. Floor 5."""
