"""All parts of a Graph as JSON and pieces of memory, and back.

Floor 6. In: values from a closed list of types. Out: plain JSON that represents each exactly.
Reading makes only values on that list: no name in the data is ever imported or run.
"""

from __future__ import annotations

import base64
import collections
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.control.linear_solve import System
from gpuarray.core import dtypes
from gpuarray.core.abstract_mesh import AbstractMesh, AxisType
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dims import Dim, Scope
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype
from gpuarray.core.layout import layout
from gpuarray.core.memories import Space
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec
from gpuarray.core.primitive import Primitive, registry
from gpuarray.core.spec import UNCONSTRAINED
from gpuarray.export.shapes import dim_of
from gpuarray.primitives.contract.convolution import ConvDimensionNumbers
from gpuarray.primitives.contract.fft import FftType
from gpuarray.primitives.contract.precision import DotAlgorithmPreset, Precision
from gpuarray.primitives.contract.ragged import RaggedDotDimensionNumbers
from gpuarray.primitives.elementwise.arithmetic import RoundingMethod
from gpuarray.primitives.elementwise.transcendental import AccuracyMode
from gpuarray.primitives.indexing.shapes import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from gpuarray.primitives.linalg.ops import EighImplementation, EigImplementation, SvdAlgorithm
from gpuarray.primitives.random.ops import (
    KeyImpl,
    RandomAlgorithm,
    implementation,
    implementations,
)
from gpuarray.pytree.structure import PyTreeDef, default_registry
from gpuarray.runtime.array import ArrayImpl

# How long the text of a length may be.
_LONGEST = 1000
# Enumerations that parameters hold: written by the names of class and member.
_ENUMS = {
    c.__name__: c
    for c in (
        AccuracyMode,
        AxisType,
        DotAlgorithmPreset,
        EigImplementation,
        EighImplementation,
        FftType,
        GatherScatterMode,
        Precision,
        RandomAlgorithm,
        RoundingMethod,
        Space,
        SvdAlgorithm,
    )
}
# Classes of a few fields, written by their name and the values of the fields.
_RECORDS: dict[str, Any] = {
    c.__name__: c
    for c in (
        ConvDimensionNumbers,
        GatherDimensionNumbers,
        RaggedDotDimensionNumbers,
        ScatterDimensionNumbers,
        System,
    )
}


class _Node(NamedTuple):
    """How a user's kind of pytree node travels."""

    name: str
    type: type
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


_by_name: dict[str, _Node] = {}
_by_type: dict[type, _Node] = {}


def register_pytree_node_serialization(
    nodetype: type,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Any], Any] | None = None,
) -> type:
    """Let a registered kind of pytree node appear in the arguments of exported programs.

    Parameters
    ----------
    serialize_auxdata, deserialize_auxdata :
        Its aux data as bytes, and back.
    from_children :
        Accepted for compatibility with JAX; nodes are rebuilt as they are registered.

    Examples
    --------

    >>> import gpuarray as ga
    >>> @ga.tree_util.register_pytree_node_class
    ... class Scaled:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten(self):
    ...         return (self.x,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> _ = ga.export.register_pytree_node_serialization(
    ...     Scaled,
    ...     serialized_name="docs.Scaled",
    ...     serialize_auxdata=lambda aux: b"",
    ...     deserialize_auxdata=lambda data: None,
    ... )
    """
    # Two types under one name would be indistinguishable; the same type may be registered again.
    if _by_name.get(serialized_name, (None, nodetype))[1] is not nodetype:
        raise ValueError(
            f"Duplicate serialization registration for name {serialized_name!r}: "
            f"{_by_name[serialized_name].type} has it already"
        )
    node = _Node(serialized_name, nodetype, serialize_auxdata, deserialize_auxdata)
    _by_name[serialized_name] = _by_type[nodetype] = node
    return nodetype


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Let a named tuple appear in the arguments of exported programs.

    >>> import collections, gpuarray as ga
    >>> Pair = collections.namedtuple("Pair", "a b")
    >>> ga.export.register_namedtuple_serialization(Pair, serialized_name="docs.Pair") is Pair
    True
    """
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda aux: b"",
        deserialize_auxdata=lambda data: None,
    )


class ValueWriter:
    """Turns values into JSON; arrays go to `pieces`."""

    def __init__(self):
        self.pieces: list[bytes] = []

    def value(self, x: Any) -> Any:
        """A parameter, or a value inside one."""
        # By exact type: a subclass would be read back as something else.
        if x is None or type(x) in (bool, int, str):
            return x
        if type(x) is float:
            # In hexadecimal, so that every bit comes back, nan and inf too.
            return {"float": x.hex()}
        if type(x) is complex:
            return {"complex": [x.real.hex(), x.imag.hex()]}
        if type(x) in (tuple, list):
            return {type(x).__name__: [self.value(y) for y in x]}
        if type(x) is dict:
            return {"dict": [[self.value(k), self.value(v)] for k, v in x.items()]}
        if isinstance(x, (np.dtype, dtypes.ExtendedDType)):
            return {"dtype": _name(x)}
        if isinstance(x, (np.ndarray, np.generic, ArrayImpl)):
            return {"array": self.array(x)}
        if isinstance(x, Dim):
            return {"dim": str(x)}
        if isinstance(x, ShapedArray):
            return {"aval": self.aval(x)}
        if isinstance(x, Graph):
            return {"graph": self.graph(x)}
        if isinstance(x, PyTreeDef):
            return {"tree": self.tree(x)}
        # By name, if the registry would find the same one again.
        if isinstance(x, Primitive) and registry.get(x.name) is x:
            return {"primitive": x.name}
        if isinstance(x, KeyImpl):
            return {"generator": x.name}
        if type(x) is frozenset:
            return {"set": [self.value(y) for y in sorted(x, key=repr)]}
        # The devices of a mesh are not exported: those of the arguments take their place.
        if isinstance(x, (Mesh, AbstractMesh)):
            mesh = x.abstract_mesh
            return {"mesh": [*map(self.value, (mesh.axis_sizes, mesh.axis_names, mesh.axis_types))]}
        if x is UNCONSTRAINED:
            return {"unconstrained": None}
        if isinstance(x, PartitionSpec):
            return {"spec": [*map(self.value, (x.partitions, x.unreduced, x.reduced))]}
        if isinstance(x, NamedSharding):
            return {"sharding": [*map(self.value, (x.mesh, x.spec, x.memory_kind))]}
        name = type(x).__name__
        if _ENUMS.get(name) is type(x):
            return {"enum": [name, x.name]}
        if _RECORDS.get(name) is type(x):
            return {"record": [name, [self.value(v) for v in _fields(x)]]}
        raise TypeError(
            f"a program that holds {x!r} of type {type(x)} cannot be written: functions of Python "
            "(callbacks, say) do not travel."
        )

    def array(self, x: Any) -> Any:
        """An array: dtype, shape, and the number of its piece of bytes."""
        dtype = x.dtype
        # Arrays of keys are stored as the integers they consist of.
        stored = np.asarray(x._value if isinstance(x, ArrayImpl) else x)
        self.pieces.append(stored.tobytes())  # in C order, whatever the strides
        return [_name(dtype), list(stored.shape), len(self.pieces) - 1]

    def aval(self, aval: ShapedArray) -> Any:
        # A symbolic length is written in its printed form.
        found = [_name(aval.dtype), [_length(n) for n in aval.shape], aval.weak_type]
        if (known := aval.layout) is not None:
            fields = (known.varying, known.mesh, known.cuts)
            sums = (known.unreduced, known.reduced)
            found.append([*map(self.value, (*fields, sums, known.space))])
        return found

    def graph(self, graph: Graph) -> Any:
        """A Graph; its variables are numbers in the order of their definition. Functions with
        custom rules are inlined: rules are not exported.
        """
        # Variables by number, in the order of their definition.
        graph = inline_calls(graph)
        number: dict[Var, int] = {}

        def define(v: Var) -> Any:
            number[v] = len(number)
            return self.aval(v.aval)

        def atom(a: Atom) -> Any:
            if isinstance(a, Literal):
                return [self.value(a.val), self.aval(a.aval)]
            return number[a]

        return {
            # In this order: `define` numbers variables when it is called, and a reader numbers them
            # alike.
            "constants": [define(v) for v in graph.constvars],
            "inputs": [define(v) for v in graph.invars],
            "equations": [
                [
                    self.value(e.primitive)["primitive"],
                    [atom(a) for a in e.invars],
                    [[k, self.value(v)] for k, v in e.params.items()],
                    [define(v) for v in e.outvars],
                ]
                for e in graph.eqns
            ],
            "outputs": [atom(a) for a in graph.outvars],
            "values": [
                self.array(_typed(c, v)) for v, c in zip(graph.constvars, graph.consts, strict=True)
            ],
            "name": graph.debug_name,
        }

    def tree(self, spec: PyTreeDef) -> Any:
        """The structure of arguments or results."""
        data = spec.node_data()
        if data is None:
            return "*"
        kind, aux = data
        inner = [self.tree(c) for c in spec.children()]
        # Kinds that every Python has go by name; a user's go as bytes of the function they
        # registered.
        if kind in (tuple, list):
            return [kind.__name__, None, inner]
        if kind is type(None):
            return ["none", None, inner]
        if kind is dict:
            return ["dict", [self.value(k) for k in aux], inner]
        if kind is collections.OrderedDict:
            return ["ordered", [self.value(k) for k in aux], inner]
        node = _by_type.get(kind)
        if node is None:
            raise ValueError(
                f"Cannot serialize the pytree node of unregistered type {kind}: register it with "
                "export.register_pytree_node_serialization or register_namedtuple_serialization."
            )
        return ["node", [node.name, base64.b64encode(node.write(aux)).decode()], inner]


def _name(dtype: Any) -> str:
    if isinstance(dtype, dtypes.ExtendedDType) and not isinstance(dtype, dtypes.KeyDtype):
        raise TypeError(
            f"a program with values of dtype {dtype.name} cannot be written: what such a dtype "
            "means is code of the user's, which does not travel. Convert the values to numbers and "
            "back outside of the exported function (lax.convert_element_type)."
        )
    return dtype.name


def _fields(x: Any) -> list:
    # Named tuples list their fields; the other records have slots.
    names = getattr(x, "_fields", None) or getattr(type(x), "__slots__", ())
    return [getattr(x, name) for name in names]


def _typed(x: Any, v: Var) -> Any:
    """A constant as an array of its variable's dtype."""
    if isinstance(x, ArrayImpl):
        return x
    return np.asarray(x).astype(storage_dtype(v.aval))


def _length(n: Any) -> Any:
    return str(n) if isinstance(n, Dim) else n


class ValueReader:
    """Read values written by a ValueWriter; ValueError for anything unexpected.

    `scope`: that of the symbols in lengths
    """

    def __init__(self, pieces: list[memoryview]):
        self.pieces = pieces
        self.scope: Scope = Scope()

    def _dim(self, body: Any) -> Any:
        if not isinstance(body, str) or len(body) > _LONGEST:
            raise ValueError(f"not a length: {str(body)[:80]}")
        return dim_of(body, self.scope)

    def value(self, x: Any) -> Any:
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, int):
            # A larger one fits no dtype, and would fail much later.
            if not -(2**63) <= x < 2**64:
                raise ValueError(f"not a number of 64 bits: {x}")
            return x
        # Everything but plain values is {tag: content}, the tag from a fixed list.
        if not isinstance(x, dict) or len(x) != 1:
            raise ValueError(f"not a value: {str(x)[:80]}")
        # The tag names a method below; only those in _TAGS can be reached from data.
        ((tag, body),) = x.items()
        read = getattr(self, f"_{tag}", None) if tag in _TAGS else None
        if read is None:
            raise ValueError(f"unknown kind of value {tag!r}")
        return read(body)

    def _float(self, body: Any) -> float:
        return float.fromhex(body)

    def _complex(self, body: Any) -> complex:
        real, imag = body
        return complex(float.fromhex(real), float.fromhex(imag))

    def _tuple(self, body: Any) -> tuple:
        items = tuple(self.value(y) for y in body)
        # (True, 2) equals (1, 2) and has its hash: a cache would take one for the other.
        if {bool, int} <= {*map(type, items)}:
            raise ValueError(f"not numbers or truth values: {items}")
        return items

    def _list(self, body: Any) -> list:
        return [self.value(y) for y in body]

    def _dict(self, body: Any) -> dict:
        return {self.value(k): self.value(v) for k, v in body}

    def _dtype(self, body: Any) -> Any:
        return _dtype_named(body)

    def _array(self, body: Any) -> np.ndarray:
        name, shape, number = body
        dtype = _dtype_named(name)
        stored = dtype.storage if isinstance(dtype, dtypes.KeyDtype) else dtype
        flat = np.frombuffer(self.pieces[number], stored)
        # A copy: the file's bytes are read-only and need not be aligned.
        return flat.reshape(tuple(shape)).copy()

    def _aval(self, body: Any) -> ShapedArray:
        name, shape, weak, *more = body
        lies = layout(*map(self.value, more[0])) if more else None
        shape = [self._dim(n) if isinstance(n, str) else n for n in shape]
        if any(isinstance(n, Dim) for n in shape):
            if not all(isinstance(n, Dim) or (type(n) is int and 0 <= n < 2**60) for n in shape):
                raise ValueError(f"not a shape: {shape}")
            return ShapedArray(tuple(shape), _dtype_named(name), bool(weak), lies)
        # More elements than any memory holds: sizes in bytes would overflow 64 bits.
        if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) >= 2**60:
            raise ValueError(f"not a shape: {shape}")
        return ShapedArray(tuple(shape), _dtype_named(name), bool(weak), lies)

    def _literal(self, value: Any, aval: ShapedArray) -> Literal:
        """A scalar of this aval."""
        if not isinstance(value, (bool, int, float, complex, np.ndarray)) or aval.shape:
            raise ValueError(f"not a scalar of {aval}: {value!r}")
        # An array of one element, or a Python number that its dtype can hold.
        stored = np.asarray(value, storage_dtype(aval))
        if stored.shape or not (isinstance(value, np.ndarray) or _holds(aval, value)):
            raise ValueError(f"not a scalar of {aval}: {value!r}")
        return Literal(value[()] if isinstance(value, np.ndarray) else value, aval)

    def _primitive(self, body: Any) -> Primitive:
        found = registry.get(body)
        if found is None:
            raise ValueError(
                f"the program uses the operation {body!r}, which this version does not have"
            )
        return found

    def _generator(self, body: Any) -> KeyImpl:
        return implementation(body)

    def _set(self, body: Any) -> frozenset:
        return frozenset(self.value(y) for y in body)

    def _mesh(self, body: Any) -> AbstractMesh:
        return AbstractMesh(*map(self.value, body))

    def _unconstrained(self, _body: Any) -> Any:
        return UNCONSTRAINED

    def _spec(self, body: Any) -> PartitionSpec:
        parts, unreduced, reduced = map(self.value, body)
        return PartitionSpec(*parts, unreduced=unreduced, reduced=reduced)

    def _sharding(self, body: Any) -> NamedSharding:
        mesh, spec, kind = map(self.value, body)
        return NamedSharding(mesh, spec, memory_kind=kind)

    def _enum(self, body: Any) -> Any:
        name, member = body
        return _ENUMS[name][member]

    def _record(self, body: Any) -> Any:
        name, fields = body
        return _RECORDS[name](*(self.value(v) for v in fields))

    def _graph(self, body: Any) -> Graph:
        return self.graph(body)

    def _tree(self, body: Any) -> PyTreeDef:
        return self.tree(body)

    def graph(self, body: Any) -> Graph:
        """A Graph, as it was."""
        known: list[Var] = []

        def define(aval: Any) -> Var:
            known.append(Var(self._aval(aval)))
            return known[-1]

        def atom(a: Any) -> Atom:
            if type(a) is int:
                # Python would count from the end.
                if a < 0:
                    raise ValueError(f"not a variable: {a}")
                return known[a]
            value, aval = a
            return self._literal(self.value(value), self._aval(aval))

        # In the order in which they were written: constants, inputs, then results of equations.
        constvars = [define(a) for a in body["constants"]]
        invars = [define(a) for a in body["inputs"]]
        eqns = []
        for name, ins, params, outs in body["equations"]:
            # Operands before results: an equation cannot use its own.
            operands = [atom(a) for a in ins]
            given = {k: self.value(v) for k, v in params}
            eqns.append(Eqn(self._primitive(name), operands, [define(a) for a in outs], given))
        outvars = [atom(a) for a in body["outputs"]]
        consts = [self._array(c) for c in body["values"]]
        # The memory of a constant has to match its variable.
        for v, c in zip(constvars, consts, strict=True):
            if (c.shape, c.dtype) != (v.aval.shape, storage_dtype(v.aval)):
                raise ValueError(f"a constant of {v.aval} is {c.dtype}{c.shape}")
        if not isinstance(body["name"], str):
            raise ValueError(f"not a name: {body['name']!r}")
        return Graph(invars, outvars, eqns, constvars, consts, body["name"])

    def tree(self, body: Any) -> PyTreeDef:
        """The structure of arguments or results."""
        if body == "*":
            data, inner = None, []
        else:
            word, aux, below = body
            inner = [self.tree(c) for c in below]
            if word in ("tuple", "list"):
                data = ({"tuple": tuple, "list": list}[word], None)
            elif word == "none":
                data = (type(None), None)
            elif word == "dict":
                data = (dict, [self.value(k) for k in aux])
            elif word == "ordered":
                data = (collections.OrderedDict, tuple(self.value(k) for k in aux))
            else:
                name, text = aux
                node = _by_name.get(name)
                if node is None:
                    raise ValueError(
                        f"the program takes or returns a {name!r}, which is not registered here: "
                        "call export.register_pytree_node_serialization with this name first."
                    )
                data = (node.type, node.read(base64.b64decode(text)))
        # It raises where the number of children does not fit the keys.
        return PyTreeDef.from_node_data_and_children(default_registry, data, inner)


_TAGS = frozenset(
    "float complex tuple list dict dim dtype array aval primitive generator enum record graph "
    "tree set mesh unconstrained spec sharding".split()
)


def _dtype_named(name: Any) -> Any:
    # Key types exist once a generator does.
    if isinstance(name, str) and name.startswith("key<"):
        for generator in implementations.values():
            found = dtypes.KeyDtype(generator)
            if found.name == name:
                return found
    if name == dtypes.float0.name:
        return dtypes.float0
    # Names with a star are the weak types of Python numbers, which are not dtypes.
    if name not in dtypes.lattice.NODES or name.endswith("*"):
        raise ValueError(f"not a dtype: {name!r}")
    return dtypes.as_dtype(name)


def _holds(aval: ShapedArray, value: Any) -> bool:
    """Whether a Python number is of the kind of a dtype, or of one that converts to it."""
    kinds = {bool: "b", int: "iu", float: "f", complex: "c"}
    # A Python number fits a type of its own kind or of a wider one.
    order = "biufc"
    return order.index(dtypes.kind_of(aval.dtype)) >= order.index(kinds[type(value)][0])
