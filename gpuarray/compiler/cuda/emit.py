"""Kernels as CUDA C++ text, meant to be read.

Floor 3. In: a Kernel. Out: a KernelSource: the text of one `extern "C"` kernel, its launch
parameters and its arguments. Text depends only on the graph: no user names, no ids, no build order.
The helpers of all kernels (`ga_*`) are in kernels/; each form has a module in this folder.
"""

from __future__ import annotations

from gpuarray.compiler.cuda.batch import BatchTemplate
from gpuarray.compiler.cuda.columns import ColumnsTemplate
from gpuarray.compiler.cuda.loop import LoopTemplate
from gpuarray.compiler.cuda.map import MapTemplate
from gpuarray.compiler.cuda.row_columns import RowColumnsTemplate
from gpuarray.compiler.cuda.rows import RowsTemplate, SharedRowsTemplate
from gpuarray.compiler.cuda.scan import ScanTemplate
from gpuarray.compiler.cuda.scatter import ScatterTemplate
from gpuarray.compiler.cuda.sort import SortTemplate
from gpuarray.compiler.cuda.tables import TablesTemplate
from gpuarray.compiler.cuda.template import PLAIN, Template
from gpuarray.compiler.cuda.template import KernelSource as KernelSource
from gpuarray.compiler.cuda.template import Options as Options
from gpuarray.compiler.cuda.tensor_sweep import sweep_template
from gpuarray.compiler.cuda.tiles import TilesTemplate
from gpuarray.compiler.cuda.top import TopTemplate
from gpuarray.compiler.cuda.user import user_source
from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower.choose import kernel_of
from gpuarray.compiler.lower.kernel import (
    Batch,
    Columns,
    Kernel,
    Map,
    RegisterLoop,
    RowColumns,
    Rows,
    Scan,
    Scatter,
    Sort,
    Sweep,
    Tables,
    Tiles,
    Top,
    User,
)


def emit(kernel: Kernel | FusedGroup, options: Options = PLAIN) -> KernelSource:
    """The text of a kernel. For a group without one, NoKernel gives the reason."""
    # A group that has no form yet, as in tests: choose one.
    if isinstance(kernel, FusedGroup):
        kernel = kernel_of(kernel)
    return user_source(kernel) if isinstance(kernel, User) else _template(kernel, options).source()


def _template(kernel: Kernel, options: Options) -> Template:
    """The template of a kernel's form, filled in with the kernel."""
    # One case for each form: `FORMS` in lower/kernel.py lists them.
    match kernel:
        case Map():
            return MapTemplate(kernel, options)
        case Tiles():
            return TilesTemplate(kernel, options)
        case RowColumns():
            return RowColumnsTemplate(kernel, options)
        case Rows():
            return (SharedRowsTemplate if kernel.shared else RowsTemplate)(kernel, options)
        case Columns():
            return ColumnsTemplate(kernel, options)
        case Scan():
            return ScanTemplate(kernel, options)
        case Sort():
            return SortTemplate(kernel, options)
        case Top():
            return TopTemplate(kernel, options)
        case Scatter():
            return ScatterTemplate(kernel, options)
        case Tables():
            return TablesTemplate(kernel, options)
        case RegisterLoop():
            return LoopTemplate(kernel, options)
        case Batch():
            return BatchTemplate(kernel, options)
        case Sweep():
            return sweep_template(kernel, options)(kernel, options)
    raise AssertionError(f"{type(kernel).__name__} has no template")
