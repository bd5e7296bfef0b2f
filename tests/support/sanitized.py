"""A plugin of pytest: native code is compiled with a sanitizer of the compiler's.

In: SANITIZER, `address` (with `undefined`) or `thread`; ci/sanitize sets it, and has the library of
the sanitizer loaded before Python. Out: units of native code in which every access is checked, and
the process ends at the first that is wrong. Machine code is not as users get it: tests of it fail.
"""

import os

SANITIZER = os.environ["SANITIZER"]
#: -O1: what the checks cost more than doubles with -O3. Alignment is not the native code's: rows
#: begin anywhere.
FLAGS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize=alignment,vptr"),
    "thread": ("-fsanitize=thread",),
}[SANITIZER]


def pytest_configure(config):
    # Here, not above: conftest.py sets the environment before the package is imported.
    from gpuarray.backends.native import library

    plain = tuple(f for f in library._FLAGS if f != "-O3")
    library._FLAGS = (*plain, "-O1", "-g1", "-fno-sanitize-recover=all", *FLAGS)
