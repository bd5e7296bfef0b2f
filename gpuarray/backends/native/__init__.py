"""Native code: kernels compiled with the host's C++ compiler, run on threads of their own."""
