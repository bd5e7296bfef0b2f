"""Write the table of least bytes anew: `python -m tests.least_bytes`.

In: nothing. Out: docs/least-bytes.md; look at its difference before keeping it.
"""

from tests.least_bytes import DOCS, page

DOCS.write_text(page())
print(DOCS)
