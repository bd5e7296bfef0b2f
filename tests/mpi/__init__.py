"""Programs of several processes, run by mpiexec."""
