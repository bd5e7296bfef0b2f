"""Write the golden kernels anew: `python -m tests.golden`.

In: nothing. Out: the files; look at their difference before keeping it.
"""

from tests.golden import HERE, path, programs, text

for old in HERE.glob("*.cu"):
    old.unlink()
for name in programs():
    path(name).write_text(text(name))
    print(path(name).relative_to(HERE.parent.parent))
