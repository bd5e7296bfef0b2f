"""Write the table of least bytes anew: `python -m tests.least_bytes`.

In: nothing. Out: docs/least-bytes.md and, where NVRTC is installed, assembled.json beside this
file; look at their differences before keeping them.
"""

from gpuarray.backends.cuda import nvrtc
from tests.least_bytes import DOCS, assemble, page

if nvrtc.available():
    assemble()

DOCS.write_text(page())
print(DOCS)
