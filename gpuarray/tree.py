"""gpuarray.tree: the functions of `gpuarray.tree_util` that are used most, under short names.

In: pytrees. Out: what `tree_util.tree_<name>` gives. `static` marks a dataclass field as structure.
Floor 6: thin over pytree/tree.py.
"""

import dataclasses as _dataclasses
from typing import Any as _Any

from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree as _tree

all = _tree.tree_all
broadcast = _tree.tree_broadcast
flatten = _tree.tree_flatten
flatten_with_path = _tree.tree_flatten_with_path
leaves = _tree.tree_leaves
leaves_with_path = _tree.tree_leaves_with_path
map = _tree.tree_map
map_with_path = _tree.tree_map_with_path
reduce = _tree.tree_reduce
reduce_associative = _tree.tree_reduce_associative
structure = _tree.tree_structure
transpose = _tree.tree_transpose
unflatten = _tree.tree_unflatten


def static(**kwargs: _Any) -> _Any:
    """Return a dataclass field that `register_dataclass` takes for static: part of the structure.

    Takes the arguments of `dataclasses.field`.

    >>> import dataclasses
    >>> from gpuarray import tree, tree_util
    >>> @tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     act: str = tree.static(default="relu")
    >>> tree.map(lambda x: 2 * x, Layer(0.5))
    Layer(w=1.0, act='relu')
    """
    # `register_dataclass` looks for this key; the user's metadata is kept with it.
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return _dataclasses.field(metadata=metadata, **kwargs)


__getattr__ = _explain_names(__name__)
