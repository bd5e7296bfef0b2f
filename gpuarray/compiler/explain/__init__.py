"""What a compiled program does, as facts, tables and drawings."""
