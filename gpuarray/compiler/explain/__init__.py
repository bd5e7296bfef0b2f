"""Facts, tables and drawings of a compiled program."""
