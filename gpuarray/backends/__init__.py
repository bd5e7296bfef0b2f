"""Machines: what compiles and runs a plan on each."""
