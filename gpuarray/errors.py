"""The exceptions of gpuarray beyond Python's own.

Floor 0: imports nothing of gpuarray. In: a tracer (anything with `.aval` and `.origin()`) or a
message. Out: typed exceptions whose text says what happened, where the value came from, and what to
write instead. Names and base classes are JAX's, so that `except jax.errors.X` keeps working.
"""

from __future__ import annotations

from typing import Any

# Many messages begin with JAX's words, and so name `jax.` or `jnp.`, because programs and tests
# look for them. The remedy follows in our own words.


# ---- while a function is traced ----
class JAXTypeError(TypeError):
    """Base of tracing errors that are TypeErrors."""


class JAXIndexError(IndexError):
    """Base of tracing errors that are IndexErrors."""


def shape_of(tracer: Any) -> str:
    """Return the description of a tracer in messages."""
    return f"traced array with shape {tracer.aval.str_short()}"


# The function being traced and the line that made the value, if they are known.
def _origin_of(tracer: Any) -> str:
    origin = tracer.origin()
    return f"\n{origin}" if origin else ""


# Every constructor below also takes a finished message, with which a pickled error is restored.


class ConcretizationTypeError(JAXTypeError):
    """A concrete value was needed where only a traced (abstract) one is known."""

    def __init__(self, tracer: Any, context: str = ""):
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        super().__init__(
            f"Abstract tracer value encountered where concrete value is expected: "
            f"{shape_of(tracer)}"
            + (f"\n{context}" if context else "")
            + _origin_of(tracer)
            + "\nInside a transformed function only the shape and dtype of this value are known. "
            "Mark the argument it depends on as static (`static_argnums`, `static_argnames`), or "
            "compute it outside."
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used where Python needs True or False (`if`, `while`, `and`, `bool`)."""

    def __init__(self, tracer: Any):
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        super().__init__(
            f"Attempted boolean conversion of {shape_of(tracer)}.{_origin_of(tracer)}"
            "\nPython's `if`, `while`, `and`, `or` and `not` need a value that is not known while "
            "tracing. Use `jnp.where` or `lax.cond` to choose by a traced value, `lax.while_loop` "
            "to loop on one, `&`, `|` and `~` for logic, or make the argument static "
            "(`static_argnums`)."
        )


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used where Python needs an integer (list index, `range`, a shape)."""

    def __init__(self, tracer: Any):
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        super().__init__(
            f"The __index__() method was called on {shape_of(tracer)}{_origin_of(tracer)}"
            "\nPython's own containers and `range` need a known integer. Index a gpuarray array "
            "(`jnp.asarray(xs)[i]`), use `lax.fori_loop`, or make the argument static "
            "(`static_argnums`)."
        )


class TracerArrayConversionError(JAXTypeError):
    """A traced value was handed to NumPy."""

    def __init__(self, tracer: Any):
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        super().__init__(
            "The numpy.ndarray conversion method __array__() was called on "
            f"{shape_of(tracer)}{_origin_of(tracer)}\n"
            "NumPy computes on numbers, and this value has none yet. Use the function of the same "
            "name in `gpuarray.numpy`, or call out with `pure_callback`."
        )


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index, so the result's shape is unknown."""

    def __init__(self, tracer: Any):
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        super().__init__(
            f"Array boolean indices must be concrete; got {tracer.aval.str_short()}\n"
            f"{_origin_of(tracer)}\n"
            "How many elements the mask selects is not known while tracing. Use `jnp.where(mask, "
            "x, other)`, `x.at[mask].set(value)`, or `jnp.nonzero(mask, size=n)`; outside a "
            "transformed function masks of any kind work."
        )


class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after the function that made it had ended."""

    def __init__(self, msg: str):
        super().__init__(msg)


class KeyReuseError(JAXTypeError):
    """A random key was used twice (raised with `debug_key_reuse`)."""

    def __init__(self, message: str):
        super().__init__(message)


# ---- about operations and their rules ----
class JaxprTypeError(TypeError):
    """A recorded graph does not type-check."""


class MissingRuleError(NotImplementedError, TypeError):
    """A primitive lacks a required rule (value, shape, derivative, batching)."""


class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic dimensions has no definite answer."""


# ---- while programs are made and run ----
class JaxRuntimeError(RuntimeError):
    """Something failed while a computation ran."""


class DeviceError(JaxRuntimeError):
    """A device is missing, or one of its calls failed."""


class CompileError(DeviceError):
    """A device's compiler refused generated or user-written source."""


class UnboundAxisError(NameError, ValueError):
    """A named axis is used that no vmap, pmap or shard_map around provides."""


class ShardingTypeError(TypeError, ValueError):
    """The sharding of a result along Explicit mesh axes does not follow from those of the operands.

    JAX raises a ValueError for some of these.
    """


class OutOfMemory(JaxRuntimeError, MemoryError):
    """A device has no memory left for an allocation; the text lists the largest live arrays."""


class DeletedBufferError(RuntimeError):
    """An array was used after its memory was donated or deleted."""


# ---- about where operations run ----
class FallbackError(RuntimeError):
    """In strict mode: an operation would run elsewhere than where it was asked to."""


class FallbackWarning(UserWarning):
    """Outside strict mode: an operation ran elsewhere than where it was asked to."""


__all__ = [
    "CompileError",
    "ConcretizationTypeError",
    "DeletedBufferError",
    "DeviceError",
    "FallbackError",
    "FallbackWarning",
    "InconclusiveDimensionOperation",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "MissingRuleError",
    "NonConcreteBooleanIndexError",
    "OutOfMemory",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnboundAxisError",
    "UnexpectedTracerError",
]
