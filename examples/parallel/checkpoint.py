"""A checkpoint that is written by pieces and restored onto another mesh.

Every device writes the pieces that it has, in NumPy's own format, with the index of each in its
array; of replicas only the first is written. Nothing says how many devices there were or how their
mesh was shaped: whoever restores lays out the arrays anew, and every device reads of the files what
its own pieces are made of.

Run: python examples/parallel/checkpoint.py [FOLDER]
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array

from gpuarray.sharding import NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402


def bounds(index, shape) -> list[list[int]]:
    """An index of slices as [[start, stop], ...]."""
    return [list(s.indices(n)[:2]) for s, n in zip(index, shape)]


def save(folder: Path, arrays: dict) -> int:
    """Write arrays by their pieces; how many files that made."""
    contents = {}
    for name, x in arrays.items():
        pieces = []
        for shard in x.addressable_shards:
            if shard.replica_id == 0:
                file = f"{name}.{len(pieces)}.npy"
                np.save(folder / file, np.asarray(shard.data))
                pieces.append({"file": file, "at": bounds(shard.index, x.shape)})
        contents[name] = {"shape": x.shape, "dtype": x.dtype.name, "pieces": pieces}
    # The list comes last: a folder that has it is complete.
    (folder / "contents.json").write_text(json.dumps(contents), encoding="utf-8")
    return sum(len(entry["pieces"]) for entry in contents.values())


def restore(folder: Path, shardings: dict) -> dict:
    """The arrays of a checkpoint, laid out as `shardings` says, whatever wrote it."""
    contents = json.loads((folder / "contents.json").read_text(encoding="utf-8"))
    if contents.keys() != shardings.keys():
        raise ValueError(f"the checkpoint has {sorted(contents)}, asked for {sorted(shardings)}")
    return {
        name: ga.make_array_from_callback(
            tuple(entry["shape"]), shardings[name], lambda index, e=entry: read(folder, e, index)
        )
        for name, entry in contents.items()
    }


def read(folder: Path, entry: dict, index) -> np.ndarray:
    """The part of an array at an index, from the files that have some of it."""
    wanted = bounds(index, entry["shape"])
    part = np.empty([stop - start for start, stop in wanted], entry["dtype"])
    for piece in entry["pieces"]:
        common = [
            (max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, piece["at"], strict=True)
        ]
        if all(start < stop for start, stop in common):
            # Only what is needed is read: the file is mapped into memory.
            data = np.load(folder / piece["file"], mmap_mode="r")
            there = [slice(a - c, b - c) for (a, b), (c, _) in zip(common, piece["at"])]
            here = [slice(a - w, b - w) for (a, b), (w, _) in zip(common, wanted)]
            part[tuple(here)] = data[tuple(there)]
    return part


def pieces_of(x) -> str:
    """How an array lies, in words."""
    shards = x.addressable_shards
    first = sum(shard.replica_id == 0 for shard in shards)
    return f"{first} pieces of {shards[0].data.shape} on {len(shards)} devices"


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    values = {"w": rng.normal(size=(16, 24)), "b": rng.normal(size=24), "count": np.array(7)}
    values = {name: v.astype(np.float32) for name, v in values.items()}

    before = ga.make_mesh((4, 2), ("data", "model"))
    specs = {"w": P("data", "model"), "b": P("model"), "count": P()}
    arrays = {n: ga.device_put(v, NamedSharding(before, specs[n])) for n, v in values.items()}
    files = save(folder, arrays)
    print(f"written: w as {pieces_of(arrays['w'])}, {files} files in all")

    after = ga.make_mesh((3,), ("x",), devices=ga.devices()[:3])
    specs = {"w": P(None, "x"), "b": P("x"), "count": P()}
    restored = restore(folder, {n: NamedSharding(after, s) for n, s in specs.items()})
    print(f"restored: w as {pieces_of(restored['w'])}")
    same = all(np.array_equal(restored[n], values[n]) for n in values)
    print(f"the same values: {same}")
    text = (folder / "contents.json").read_text(encoding="utf-8")
    print(f"a mesh in the files: {any(word in text for word in ('data', 'model', 'mesh'))}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
