"""Backends: what compiles and runs a plan on each kind of machine. Floor 4."""
