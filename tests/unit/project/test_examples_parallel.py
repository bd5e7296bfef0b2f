"""The programs in examples/parallel run, agree with one device, and send what they say."""

import pytest

from tests.support import ROOT
from tests.unit.project.test_examples import run

SAYS = {
    "data_parallel.py": [
        # The gradients of 50,890 parameters and the loss.
        "psum along batch (203,564 bytes)",
        "equal to one device's: True",
        "each device has 32 of 256 images",
        "parameters are whole on every device: True",
    ],
    "tensor_parallel.py": [
        "each device has 6,144 of 49,152 parameters",
        # One sum after attention and one after the MLP, of (batch, tokens, width) each.
        "shard_map, forward: 2 psum along model (16,384 bytes)",
        "jit, forward: 2 psum along model (16,384 bytes)",
        "shard_map, equal to one device's: True",
        "jit, equal to one device's: True",
        "shard_map, gradients equal to one device's: True",
        "jit, gradients equal to one device's: True",
        "gradients lie as the parameters do: True",
    ],
    "kmeans.py": [
        # Sums (5, 2), counts (5,) and a distance, in float32.
        "one step: 1 psum along points (64 bytes)",
        "equal to one device's: True",
        "equal to jit's: True",
    ],
    "heat.py": [
        # A number to each side in every step.
        "400 steps: 800 ppermute along rod (3,200 bytes)",
        "equal to one device's: True",
        "equal to the solution in closed form: True",
    ],
    "pipeline.py": [
        # Microbatches (4, 32) in each of 16 + 8 - 1 turns; the 16 results at the end.
        "forward: 23 ppermute along stage (11,776 bytes), 1 psum along stage (8,192 bytes)",
        "equal to one device's: True",
        "23 turns for 16 microbatches: busy 70%",
        # Back through the same pipeline, and the sum of forward once.
        "with gradients: 46 ppermute along stage (23,552 bytes), 1 psum along stage (8,192 bytes)",
        "gradients equal to one device's: True",
        "each device has the gradient of its layer: (1, 32, 32)",
    ],
    "fsdp.py": [
        # An eighth of 26,624 parameters gathered, all of their gradients added up and cut.
        # The bias and the last layer are small, and are sent with others.
        "1 all_gather along data (13,312 bytes)",
        "2 reduce_scatter along data (106,496 bytes)",
        "losses equal to one device's: True",
        "parameters equal to one device's: True",
        "each device keeps (16, 128) of (128, 128)",
    ],
    "checkpoint.py": [
        "written: w as 8 pieces of (4, 12) on 8 devices, 11 files in all",
        "restored: w as 3 pieces of (16, 8) on 3 devices",
        "the same values: True",
        "a mesh in the files: False",
    ],
}


@pytest.mark.parametrize("name", SAYS)
def test_says(name):
    text = run(f"parallel/{name}")
    missing = [line for line in SAYS[name] if line not in text]
    assert not missing, text


def test_every_program_is_checked():
    folder = ROOT / "examples" / "parallel"
    names = {path.name for path in folder.glob("*.py")} - {"exchanges.py"}
    assert names == SAYS.keys()
