"""Handwritten digits learnt by a small network: 784 pixels, two hidden layers of 512, ten classes.

The network is written for one image; `vmap` makes it take a batch, `grad` gives the direction in
which the loss falls, and `jit` compiles the step. Without a folder of MNIST's files it draws digits
of its own.

Run: python examples/mnist.py [--data FOLDER] [--epochs N] [--plot FILE.svg]
"""

import argparse
import functools
import gzip
import importlib.util
import sys
import time
from pathlib import Path

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import grad, jit, nn, random, vmap

LAYER_SIZES = [784, 512, 512, 10]
CLASSES = 10
STEP_SIZE = 0.2

# ---- the network ----


def init_layer(m: int, n: int, key):
    """Random weights (n, m) of a layer from m to n values, and its offsets (n,)."""
    w_key, b_key = random.split(key)
    return random.normal(w_key, (n, m)) * (2 / m) ** 0.5, 1e-2 * random.normal(b_key, (n,))


def init_network_params(sizes: list[int], key):
    """The layers between consecutive sizes: [(weights, offsets), ...]."""
    keys = random.split(key, len(sizes) - 1)
    return [init_layer(m, n, k) for m, n, k in zip(sizes[:-1], sizes[1:], keys)]


def predict(params, image):
    """The logarithms of the probabilities of the classes of one image: (784,) -> (10,)."""
    x = image
    for w, b in params[:-1]:
        x = nn.relu(gnp.dot(w, x) + b)
    w, b = params[-1]
    logits = gnp.dot(w, x) + b
    return logits - nn.logsumexp(logits)


batched_predict = vmap(predict, in_axes=(None, 0))


def one_hot(labels, count: int = CLASSES):
    """(n,) integers -> (n, count), with 1 where the column is the label."""
    return (labels[:, None] == gnp.arange(count)).astype(gnp.float32)


def loss(params, images, targets):
    """The mean cross entropy of predictions for images (n, 784) with targets (n, 10)."""
    return -gnp.mean(gnp.sum(batched_predict(params, images) * targets, axis=1))


@jit
def accuracy(params, images, labels):
    """The share of images (n, 784) whose likeliest class is their label (n,)."""
    return gnp.mean(gnp.argmax(batched_predict(params, images), axis=1) == labels)


def update(params, images, targets):
    """The parameters after one step downhill."""
    slopes = grad(loss)(params, images, targets)
    return [(w - STEP_SIZE * dw, b - STEP_SIZE * db) for (w, b), (dw, db) in zip(params, slopes)]


jit_update = jit(update)

# ---- the data ----

FILES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}


class DataError(Exception):
    """The files given are not what is expected; the message says which and why."""


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """A file in IDX form, as MNIST is published: a header of big-endian lengths, then bytes."""
    data = path.read_bytes()
    try:
        data = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be unpacked: {error}") from None
    start = 4 + 4 * dimensions
    magic = bytes([0, 0, 8, dimensions])
    if len(data) < start or data[:4] != magic:
        raise DataError(
            f"{path} is not an IDX file of {dimensions} dimensions of bytes: it should begin with "
            f"{magic.hex(' ')}, found {data[:4].hex(' ') or 'nothing'}"
        )
    shape = np.frombuffer(data, ">u4", dimensions, offset=4).tolist()
    values = np.frombuffer(data, np.uint8, offset=start)
    if values.size != np.prod(shape):
        raise DataError(f"{path} announces {shape} values and holds {values.size}: cut short?")
    return values.reshape(shape)


def load(folder: Path) -> list[np.ndarray]:
    """Images (n, 784) in 0..1 and labels (n,) for training, then the same for testing."""
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; give the one that holds {', '.join(FILES.values())}"
        )
    arrays = []
    for what, name in FILES.items():
        # Some collections write a dot before "idx".
        names = [
            name,
            name + ".gz",
            name.replace("-idx", ".idx"),
            name.replace("-idx", ".idx") + ".gz",
        ]
        found = [folder / n for n in names if (folder / n).is_file()]
        if not found:
            raise DataError(f"{folder} has no {what}: expected {name} or {name}.gz")
        if what.endswith("images"):
            images = read_idx(found[0], 3)
            if images.shape[1:] != (28, 28):
                raise DataError(f"{found[0]} holds images of {images.shape[1:]}, expected (28, 28)")
            arrays.append(images.reshape(-1, 784).astype(np.float32) / 255)
        else:
            labels = read_idx(found[0], 1)
            if len(labels) != len(arrays[-1]):
                raise DataError(f"{found[0]} has {len(labels)} labels for {len(arrays[-1])} images")
            if labels.max(initial=0) >= CLASSES:
                raise DataError(f"{found[0]} has a label {labels.max()}, expected 0 to 9")
            arrays.append(labels.astype(np.int32))
    return arrays


# Ten digits on a grid of 7 by 5.
GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#...# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#...# ..#.. ...#. ..##. #..#. ....# ####. ...#. .###. .####
#...# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###.
"""


def glyphs() -> np.ndarray:
    """(10, 9, 7): the digits with an empty border."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    digits = np.array([[[c == "#" for c in row[d]] for row in rows] for d in range(CLASSES)])
    return np.pad(digits, ((0, 0), (1, 1), (1, 1))).astype(np.float32)


def draw(glyph, chance, noise):
    """One digit (784,) from its glyph: turned, slanted, stretched and moved by chance (7,)."""
    turn, slant, tall, wide, up, left, ink = chance
    y, x = gnp.mgrid[0:28, 0:28].astype(gnp.float32) - 13.5
    y, x = y + 3.0 * up, x + 3.0 * left
    angle = 0.3 * turn
    y, x = gnp.cos(angle) * y - gnp.sin(angle) * x, gnp.sin(angle) * y + gnp.cos(angle) * x
    x = x + 0.3 * slant * y
    # Where on the grid each pixel looks: digits are about 20 pixels tall.
    row = gnp.clip(y * (0.34 + 0.07 * tall) + 4.0, 0.0, 7.999)
    column = gnp.clip(x * (0.40 + 0.10 * wide) + 3.0, 0.0, 5.999)
    i, j = row.astype(gnp.int32), column.astype(gnp.int32)
    v, u = row - i, column - j
    top = glyph[i, j] * (1 - u) + glyph[i, j + 1] * u
    bottom = glyph[i + 1, j] * (1 - u) + glyph[i + 1, j + 1] * u
    image = (0.85 + 0.15 * ink) * (top * (1 - v) + bottom * v)
    return gnp.clip(image.ravel() + 0.15 * noise, 0.0, 1.0)


@functools.partial(jit, static_argnums=1)
def drawn(key, count: int):
    """So many digits: images (count, 784) and labels (count,), the same for the same key."""
    label_key, chance_key, noise_key = random.split(key, 3)
    labels = random.randint(label_key, (count,), 0, CLASSES)
    chance = random.uniform(chance_key, (count, 7), minval=-1.0)
    noise = random.normal(noise_key, (count, 784))
    return vmap(draw)(gnp.asarray(glyphs())[labels], chance, noise), labels


# ---- training ----


def bar(done: int, of: int, note: str) -> None:
    """Progress on a terminal; logs stay short."""
    if sys.stderr.isatty():
        full = 30 * done // of
        end = "\n" if done == of else ""
        print(f"\r[{'=' * full:30}] {note}", end=end, file=sys.stderr, flush=True)


def train(params, data, epochs: int, batch: int, seed: int = 1):
    """The parameters after some epochs, and the accuracy (training, test) after each."""
    images, labels, test_images, test_labels = data
    order = np.random.default_rng(seed)
    steps = max(len(images) // batch, 1)
    scores = [
        (float(accuracy(params, images, labels)), float(accuracy(params, test_images, test_labels)))
    ]
    for epoch in range(epochs):
        start = time.perf_counter()
        for i, chosen in enumerate(
            np.split(order.permutation(len(images))[: steps * batch], steps)
        ):
            params = jit_update(params, images[chosen], one_hot(labels[chosen]))
            bar(i + 1, steps, f"epoch {epoch + 1} of {epochs}")
        ga.block_until_ready(params)
        seconds = time.perf_counter() - start
        scores.append(
            (
                float(accuracy(params, images, labels)),
                float(accuracy(params, test_images, test_labels)),
            )
        )
        print(
            f"epoch {epoch + 1:2}: {seconds:6.2f} s, accuracy on training data "
            f"{scores[-1][0]:.3f}, on test data {scores[-1][1]:.3f}"
        )
    return params, scores


def step_times(params, images, targets, rounds: int = 8, steps: int = 6) -> dict[str, float]:
    """Seconds of one step among others of its kind: compiled, as it stands, and operation by
    operation (median).

    What they share are the matrix products: the larger the batch, the more alike they are.
    """

    def unfused(*args):
        with ga.fusion(False):
            return ga.block_until_ready(update(*args))

    ways = {"jit": jit_update, "without jit": update, "without jit or fusion": unfused}
    taken = {name: [] for name in ways}
    for _ in range(rounds):  # in turn, so that a busy machine disturbs all alike
        for name, way in ways.items():
            now = params
            for i in range(steps):
                start = time.perf_counter()
                now = ga.block_until_ready(way(now, images, targets))
                if i:  # the first may compile, and finds the caches full of others' values
                    taken[name].append(time.perf_counter() - start)
    return {name: sorted(times)[len(times) // 2] for name, times in taken.items()}


# ---- the picture ----


def plot(path: Path, scores: list[tuple[float, float]]) -> None:
    """Accuracy over epochs: SVG without further libraries, other forms by matplotlib."""
    series = dict(zip(("training data", "test data"), zip(*scores)))
    if path.suffix == ".svg":
        path.write_text(as_svg(series), encoding="utf-8")
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for name, values in series.items():
        axes.plot(values, label=name, marker="o")
    axes.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1))
    axes.legend()
    figure.savefig(path)


def as_svg(series: dict[str, tuple[float, ...]]) -> str:
    """Lines over 0, 1, 2, ... with values in 0..1."""
    left, top, width, height = 50, 20, 520, 260
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = top + height * (1 - tick)
        parts.append(f'<path d="M{left} {y:g}h{width}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:g}" text-anchor="end">{tick:.2f}</text>')
    for i, (name, values) in enumerate(series.items()):
        colour = ("#0072b2", "#e69f00")[i]
        across = width / max(len(values) - 1, 1)
        points = " ".join(
            f"{left + across * n:.1f},{top + height * (1 - v):.1f}" for n, v in enumerate(values)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(
            f'<text x="{left + 90 + 200 * i}" y="{top + height + 36}" fill="{colour}">{name}</text>'
        )
    parts.append(
        f'<text x="{left + width}" y="{top + height + 18}" text-anchor="end">epochs</text>'
    )
    body = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 330" font-size="12"
 font-family="sans-serif">
<title>Accuracy</title>
<rect width="600" height="330" fill="white"/>
{body}
</svg>
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with MNIST's four files, packed or not")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    default = Path("build/examples/accuracy.svg")
    parser.add_argument("--plot", type=Path, default=default, help=".svg, .png, ...")
    options = parser.parse_args(arguments)
    if options.batch < 1 or options.epochs < 0:
        parser.error("--batch must be at least 1 and --epochs at least 0")
    if options.plot.suffix != ".svg" and importlib.util.find_spec("matplotlib") is None:
        parser.error(f"--plot {options.plot}: without matplotlib only .svg can be written")
    if options.data:
        try:
            data = load(options.data)
        except DataError as error:
            raise SystemExit(f"mnist.py: {error}") from None
        origin = str(options.data)
    else:
        train_key, test_key = random.split(random.PRNGKey(2))
        data = [*drawn(train_key, 2000), *drawn(test_key, 500)]
        origin = "digits drawn by this program"
    data = [gnp.asarray(a) for a in data]
    print(f"{len(data[0])} images to learn, {len(data[2])} to test: {origin}")

    params = init_network_params(LAYER_SIZES, random.PRNGKey(0))
    params, scores = train(params, data, options.epochs, options.batch)
    options.plot.parent.mkdir(parents=True, exist_ok=True)
    plot(options.plot, scores)
    print(f"accuracy over epochs: {options.plot}")

    first = data[0][: options.batch], one_hot(data[1][: options.batch])
    times = step_times(params, *first)
    for name, seconds in times.items():
        print(f"one step {name:22}{1e3 * seconds:8.2f} ms")
    ratio = times["without jit or fusion"] / times["jit"]
    print(f"jit: {ratio:.2f} times as fast as unfused operations")


if __name__ == "__main__":
    main()
