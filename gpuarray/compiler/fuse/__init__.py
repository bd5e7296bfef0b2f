"""Graph to steps: which equations become one kernel."""
