"""A small program that touches the package as a user would, for `python -O` and an installed wheel.

In: nothing, or --installed-under DIR to demand that the package was imported from DIR.
Out: one line on success, else an exception. Checks raise by themselves: -O removes assert.
"""

import argparse
from pathlib import Path

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp


def expect(what: str, got, want) -> None:
    """Raise unless `got` equals `want` to six digits."""
    if not np.allclose(np.asarray(got), np.asarray(want), rtol=1e-6, atol=1e-6):
        raise SystemExit(f"smoke: {what}: got {got}, expected {want}")


def find_package(installed_under: Path | None) -> None:
    """Check where the package came from and that the hand-written kernels came along."""
    package = Path(ga.__file__).resolve().parent
    if installed_under and installed_under.resolve() not in package.parents:
        raise SystemExit(f"smoke: gpuarray came from {package}, expected under {installed_under}")
    kernels = package / "_kernels" if installed_under else package.parent / "kernels"
    if not any(path.is_file() for path in kernels.rglob("*")):
        raise SystemExit(f"smoke: no CUDA source under {kernels}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--installed-under", type=Path)
    find_package(parser.parse_args().installed_under)

    x = gnp.arange(4.0)
    expect("eager", gnp.sin(x) * 2 + x, np.sin(np.arange(4)) * 2 + np.arange(4))
    expect("jit", ga.jit(lambda v: (v**2).sum())(x), 14.0)
    expect("grad", ga.grad(lambda v: (v**3).sum())(x), 3 * np.arange(4) ** 2)
    expect("vmap", ga.vmap(gnp.dot, in_axes=(0, None))(gnp.eye(4), x), np.arange(4))
    expect("key", ga.random.PRNGKey(18), [0, 18])
    try:
        gnp.sum([1.0, 2.0])
    except TypeError:
        pass
    else:
        raise SystemExit("smoke: a list given to gnp.sum was accepted")
    print(f"smoke: gpuarray {ga.__version__} works")


if __name__ == "__main__":
    main()
