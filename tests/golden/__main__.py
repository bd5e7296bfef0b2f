"""Write the golden kernels anew: `python -m tests.golden`.

In: nothing. Out: the files; look at their difference before keeping it.
"""

from tests.golden import HERE, NATIVE, native_path, native_text, path, programs, text

for old in (*HERE.glob("*.cu"), *HERE.glob("*.cpp")):
    old.unlink()
for name in programs():
    path(name).write_text(text(name))
    print(path(name).relative_to(HERE.parent.parent))
for name in NATIVE:
    native_path(name).write_text(native_text(name))
    print(native_path(name).relative_to(HERE.parent.parent))
