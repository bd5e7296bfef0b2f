"""Backends: compile and run a plan on each kind of machine. Floor 4."""
