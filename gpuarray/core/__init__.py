"""What everything above is made of: dtypes, avals, trees, primitives, traces, graphs. Floor 1."""
