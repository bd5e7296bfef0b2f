"""A stand-in for CuPy, as far as gpuarray uses it: programs for GPUs run where there is none.

In: `with installed(seed=...) as world:`, or the fixture `fake_gpu` of tests/conftest.py. Out: the
module `cupy` is this one for as long, gpuarray finds GPUs, and `world` (world.py) says what to make
fail and what went wrong. Names and signatures are those of CuPy's wheel, which a test compares
where the wheel can be imported (tests/unit/backends/cuda/test_fake_cupy.py).

| file | what it is |
|---|---|
| `world.py` | queues of work that run later, in an order drawn from a seed; failures on demand |
| `memory.py` | memory that is poisoned, with what uses it when; pools |
| `streams.py` `runtime.py` `kernels.py` `arrays.py` `errors.py` | CuPy's names on top of that |
| `nccl.py` | its names of NCCL: exchanges, and what would hang |
| `c_library.py` `cublaslt.py` `cudnn.py` | libraries that are called by their C functions |
| `install.py` | puts it in place of CuPy, and takes it away again |
"""

from tests.fake_cupy.install import NAMES as NAMES
from tests.fake_cupy.install import installed as installed
from tests.fake_cupy.world import world as world
