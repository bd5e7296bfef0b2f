"""From a Graph to a Plan of fused kernels and library steps, and to their text. Floor 3."""
