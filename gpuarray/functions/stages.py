"""The stages of a jitted function: traced, lowered, compiled.

Floor 6. In: a Graph and the structures of a function's arguments and result. Out: objects to look
at and to run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuarray import config
from gpuarray.compiler.explain import source
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.functions.layouts import Where, run
from gpuarray.pytree import tree
from gpuarray.runtime import cache, host


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist: what `eval_shape` returns and `lower` takes.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("aval", "sharding")

    def __init__(self, shape, dtype, *, sharding=None, weak_type: bool = False):
        # JAX refuses None here, although NumPy reads it as float64.
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.aval = ShapedArray(tuple(shape), dtypes.as_dtype(dtype), weak_type)
        self.sharding = sharding

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    weak_type = property(lambda self: self.aval.weak_type)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The shape and dtype of an array, or of anything that has them.

        >>> import gpuarray.numpy as gnp
        >>> ShapeDtypeStruct.like(gnp.ones((2, 3)))
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        aval = aval_of(x)
        sharding = getattr(x, "sharding", None) if isinstance(x, cls) else None
        return cls(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)

    def update(self, **changes) -> ShapeDtypeStruct:
        """The same struct with some fields changed."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self.sharding,
            "weak_type": self.weak_type,
        } | changes
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    # As arrays have it.
    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        sharding = f", sharding={self.sharding}" if self.sharding is not None else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak})"

    def __eq__(self, other) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return False
        return self.aval is other.aval and self.sharding == other.sharding

    def __hash__(self) -> int:
        return hash((self.aval, self.sharding))


def struct_of(aval: ShapedArray) -> ShapeDtypeStruct:
    """An aval as the public struct."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


class MemoryStats(NamedTuple):
    """Bytes a compiled program needs."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int = 0
    generated_code_size_in_bytes: int = 0


class Stage:
    """Base class of the three stages."""

    def __init__(
        self,
        graph: Graph,
        in_spec,
        out_spec,
        donated: frozenset[int],
        fun_name: str,
        where: Where | None = None,
    ):
        self.jaxpr = graph
        self._where = where
        self.fun_name = fun_name
        self._in_spec = in_spec
        self._out_spec = out_spec
        self._donated = donated

    @property
    def in_tree(self):
        """The structure of (args, kwargs)."""
        return tree.from_raw(self._in_spec)

    @property
    def out_tree(self):
        """The structure of the result."""
        return tree.from_raw(self._out_spec)

    @property
    def in_avals(self):
        """The avals of (args, kwargs)."""
        return tree.unflatten_raw(self._in_spec, self.jaxpr.in_avals)

    @property
    def out_avals(self):
        """The avals of the flat results."""
        return self.jaxpr.out_avals

    @property
    def args_info(self):
        """Shapes and dtypes of (args, kwargs)."""
        return tree.unflatten_raw(self._in_spec, [struct_of(a) for a in self.jaxpr.in_avals])

    @property
    def out_info(self):
        """Shapes and dtypes of the result."""
        return tree.unflatten_raw(self._out_spec, [struct_of(a) for a in self.jaxpr.out_avals])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which flat arguments are given away."""
        return tuple(sorted(self._donated))

    def _next(self, kind: type) -> Any:
        about = (self._in_spec, self._out_spec, self._donated, self.fun_name, self._where)
        return kind(self.jaxpr, *about)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fun_name}>"


class Traced(Stage):
    """A function traced for given arguments: `.jaxpr` is its Graph."""

    def lower(self) -> Lowered:
        """The plan of this function: simplified, and grouped into kernels."""
        return self._next(Lowered)


class Lowered(Stage):
    """A traced function and the plan made of it."""

    def compile(self) -> Compiled:
        """The function compiled for these argument types, to be called."""
        return self._next(Compiled)

    @property
    def plan(self):
        """The plan: groups and library steps in order."""
        return plan_graph(self.jaxpr, fusion=config.state.fusion)

    def as_text(self, dialect: str | None = None) -> str:
        """The plan in words: one block a group or step."""
        if dialect is not None:
            raise ValueError(
                f"as_text has no dialects, got {dialect!r}: leave it out for the plan in words, or "
                "take cuda_source()."
            )
        return str(self.plan)

    def cuda_source(self) -> str:
        """The CUDA C++ of every kernel, with all it calls and the user's lines as comments.

        >>> import gpuarray as ga, gpuarray.numpy as gnp
        >>> text = ga.jit(lambda x: gnp.sin(x) + 1).lower(gnp.ones(3)).cuda_source()
        >>> "ga_sin(x0)" in text
        True
        """
        return source.cuda_source(self.plan)

    def cost_analysis(self) -> dict[str, float]:
        """Floating-point operations and bytes moved, by the plan."""
        plan = self.plan
        return {"flops": float(plan.work), "bytes accessed": float(plan.bytes_moved)}


class Compiled(Lowered):
    """A compiled function, callable with arguments of exactly the kind it was made for."""

    def __init__(self, graph: Graph, in_spec, out_spec, donated, fun_name: str, where=None):
        super().__init__(graph, in_spec, out_spec, donated, fun_name, where)
        self._executable, self._constants = cache.compiled_graph(graph, fun_name, donated=donated)

    @property
    def plan(self):
        return self._executable.plan

    def memory_analysis(self) -> MemoryStats:
        """Bytes of arguments, results and temporaries."""
        arguments = sum(a.nbytes for a in self.jaxpr.in_avals)
        results = sum(a.nbytes for a in self.jaxpr.out_avals)
        return MemoryStats(arguments, results, self.plan.temporary_bytes)

    def runtime_executable(self):
        """The executable itself."""
        return self._executable

    def __call__(self, *args, **kwargs):
        # The structure decides which leaf is which, so it is compared first.
        leaves, spec = tree.flatten_raw((args, kwargs))
        if spec != self._in_spec:
            raise TypeError(
                f"the compiled {self.fun_name} was made for arguments of structure {self.in_tree}, "
                f"and was called with {tree.from_raw(spec)}"
            )
        for i, (x, aval) in enumerate(zip(leaves, self.jaxpr.in_avals, strict=True)):
            given = aval_of(x)
            # Weak types do not matter to a compiled program.
            if (given.shape, given.dtype) != (aval.shape, aval.dtype):
                raise TypeError(
                    "Argument types differ from the types for which this computation was compiled: "
                    f"flat argument {i} of {self.fun_name} should be {aval.str_short()}, got "
                    f"{given.str_short()}"
                )
        inputs: list = [host.own(x) for x in leaves]
        arrays = run(self._executable, inputs, self._donated, self._where, self._constants)
        return tree.unflatten_raw(self._out_spec, arrays)

    call = __call__
