"""The programs in examples/ that are about derivatives, vmap and loops run, and find what they
should; the MNIST loader reads what it should and says what is wrong with the rest.
"""

import gzip
import os
import re
import runpy
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT
from tests.unit.project.test_examples import run


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def test_mnist_learns(tmp_path):
    path = tmp_path / "accuracy.svg"
    text = run("mnist.py", "--plot", str(path))
    last = [line for line in text.splitlines() if line.startswith("epoch")][-1]
    assert number(r"on test data (\S+)", last) > 0.9
    assert number(r"jit: (\S+) times as fast", text) > 0
    picture = path.read_text()
    assert picture.count("<polyline") == 2 and "test data" in picture


@pytest.fixture(scope="module")
def mnist():
    """The names of examples/mnist.py."""
    return runpy.run_path(str(ROOT / "examples" / "mnist.py"))


def write_idx(path: Path, values: np.ndarray) -> None:
    data = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    data += values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def folder(mnist, tmp_path):
    """Four files as MNIST is published, of digits that the program drew; one packed, one dotted."""
    for key, (count, kind) in enumerate([(120, "train"), (30, "t10k")]):
        images, labels = mnist["drawn"](mnist["random"].PRNGKey(key), count)
        pixels = (255 * np.asarray(images)).astype(np.uint8).reshape(-1, 28, 28)
        packed = kind == "train"
        images_name = "train-images-idx3-ubyte.gz" if packed else "t10k-images.idx3-ubyte"
        write_idx(tmp_path / images_name, pixels)
        write_idx(tmp_path / f"{kind}-labels-idx1-ubyte", np.asarray(labels))
    return tmp_path


def test_mnist_reads_the_published_form(folder):
    plot = folder / "accuracy.svg"
    text = run(
        "mnist.py", "--data", str(folder), "--epochs", "1", "--batch", "20", "--plot", str(plot)
    )
    assert f"120 images to learn, 30 to test: {folder}" in text
    assert plot.is_file()


def test_mnist_plots_by_matplotlib(mnist, tmp_path):
    pytest.importorskip("matplotlib")
    mnist["plot"](tmp_path / "accuracy.png", [(0.1, 0.1), (0.9, 0.8)])
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_loaded_values(mnist, folder):
    images, labels, test_images, test_labels = mnist["load"](folder)
    assert images.shape == (120, 784) and images.dtype == np.float32
    assert 0 <= images.min() and 0.9 < images.max() <= 1
    assert labels.shape == (120,) and set(np.unique(labels)) <= set(range(10))
    assert test_images.shape == (30, 784) and test_labels.shape == (30,)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    "file, spoil, message",
    [
        ("train-labels-idx1-ubyte", Path.unlink, "has no train labels: expected train-labels-idx1"),
        ("t10k-labels-idx1-ubyte", cut_short, r"announces \[30\] values and holds 29"),
        (
            "t10k-labels-idx1-ubyte",
            lambda p: p.write_bytes(b"<html>"),
            "begin with 00 00 08",
        ),
        ("t10k-labels-idx1-ubyte", lambda p: p.write_bytes(b""), "found nothing"),
        ("train-images-idx3-ubyte.gz", cut_short, "cannot be unpacked"),
        (
            "train-labels-idx1-ubyte",
            lambda p: write_idx(p, np.zeros(7)),
            "7 labels for 120 images",
        ),
        ("t10k-labels-idx1-ubyte", lambda p: write_idx(p, np.full(30, 11)), "has a label 11"),
    ],
)
def test_what_is_wrong_with_a_file(mnist, folder, file, spoil, message):
    spoil(folder / file)
    with pytest.raises(mnist["DataError"], match=message):
        mnist["load"](folder)


def test_a_folder_that_is_not_there(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "mnist.py"), "--data", str(tmp_path / "no")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("mnist.py: ") and "is not a folder" in done.stderr


def test_optics_finds_a_mask():
    text = run("optics.py")
    assert number(r"difference quotient by (\S+)", text) < 1e-2
    shares = [float(s) for s in re.findall(r"step .*: +(\S+)% of the light", text)]
    assert shares[0] < 20 and shares[-1] > 85


def test_ode_fit_finds_the_rates():
    text = run("ode_fit.py", "250")
    rows = re.findall(r"^(?:birth|eaten|death|thriving) +(\S+) +(\S+)$", text, re.MULTILINE)
    assert len(rows) == 4
    for true, found in rows:
        assert abs(float(found) / float(true) - 1) < 0.1


def test_per_example_gradients_find_the_flipped_labels():
    text = run("per_example_gradients.py")
    assert number(r"difference between the two: (\S+)", text) < 1e-4
    assert number(r"largest gradients, (\d+) belong", text) >= 9


def test_hessian_vector_products_agree_with_the_matrix():
    text = run("hessian_vector.py")
    assert number(r"whole matrix it differs by (\S+)", text) < 1e-4
    by_matrix, by_products = re.findall(r"largest eigenvalue: (\S+)", text)
    assert abs(float(by_matrix) - float(by_products)) < 1e-3
    assert number(r"Newton step 5: .* gradient (\S+)", text) < 1e-5


def test_mandelbrot_has_its_area(tmp_path):
    path = tmp_path / "picture.pgm"
    text = run("mandelbrot.py", "200", str(path))
    share = number(r"(\S+) of the points stayed", text)
    assert 0.235 < share < 0.255  # 1.51 of 2.7 · 2.4, and what leaves late
    assert path.read_bytes().startswith(b"P5 200 177 60\n")
    assert path.stat().st_size == len(b"P5 200 177 60\n") + 200 * 177
