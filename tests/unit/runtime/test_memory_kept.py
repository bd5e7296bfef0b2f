"""What stays in memory: constants go with their functions, and every cache has a bound.

In: many functions, shapes, settings and threads. Out: counts of what is alive and of work done,
never times or sizes of the process, so that the tests say the same on every machine.
"""

import ast
import functools
import gc
import itertools
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.config import _trace_keys, config
from gpuarray.core import avals
from gpuarray.core.avals import ShapedArray
from gpuarray.experimental import checkify
from gpuarray.runtime import cache, lazy
from gpuarray.transforms import trace_cache, tracing
from gpuarray.util import Interned, Recent, _code_of, function_of_text

PACKAGE = Path(ga.__file__).parent
MEGABYTE = 1 << 18  # elements of float32


@pytest.fixture(autouse=True)
def empty_caches():
    ga.clear_caches()
    yield
    ga.clear_caches()


# ---- constants of dead functions ----


def with_derivative(c):
    @ga.custom_jvp
    def scaled(x):
        return x * c

    scaled.defjvp(lambda primals, tangents: (primals[0] * c, tangents[0] * c))
    return scaled


class Model:
    """A method is jitted, and its program calls another one of the object back."""

    def __init__(self, c):
        self.c = c
        self.step = ga.jit(self._step)

    def _step(self, x):
        ga.debug.callback(self.look, x[0])
        return x + self.c

    def look(self, x):
        pass


def called_back(c):
    def add(x):
        return x + np.asarray(c)

    return lambda x: ga.pure_callback(add, ga.ShapeDtypeStruct(x.shape, x.dtype), x)


USES = {
    "jit": lambda c, x: ga.jit(lambda x: x + c)(x),
    "jit, same structure of arguments": lambda c, x: ga.jit(lambda d: d["a"] + c)({"a": x}),
    "jit in jit": lambda c, x: ga.jit(lambda x: 2 * ga.jit(lambda x: x + c)(x))(x),
    "grad of jit": lambda c, x: ga.grad(lambda x: ga.jit(lambda x: x * c)(x).sum())(x),
    "jit of grad": lambda c, x: ga.jit(ga.grad(lambda x: (x * c).sum()))(x),
    "vmap of jit": lambda c, x: ga.vmap(ga.jit(lambda row: row + c))(x[None]),
    "linearize": lambda c, x: ga.linearize(lambda x: ga.jit(lambda x: x * c)(x), x)[1](x),
    "scan": lambda c, x: lax.scan(lambda s, _: (s + c, None), x, None, length=2)[0],
    "while": lambda c, x: lax.while_loop(lambda s: s[0] < 2, lambda s: s + c, x),
    "cond": lambda c, x: lax.cond(x[0] > 0, lambda x: x + c, lambda x: x, x),
    "jit of scan": lambda c, x: ga.jit(
        lambda x: lax.scan(lambda s, _: (s + c, None), x, None, length=2)[0]
    )(x),
    "custom rule": lambda c, x: ga.jit(ga.grad(lambda x: with_derivative(c)(x).sum()))(x),
    "custom rule, eager": lambda c, x: ga.grad(lambda x: with_derivative(c)(x).sum())(x),
    "checkpoint": lambda c, x: ga.grad(lambda x: ga.checkpoint(lambda x: x * c)(x).sum())(x),
    "callback": lambda c, x: called_back(c)(x),
    "jit of callback": lambda c, x: ga.jit(called_back(c))(x),
    "lower and compile": lambda c, x: ga.jit(lambda x: x + c).lower(x).compile()(x),
    "donated": lambda c, x: ga.jit(lambda x: x + c, donate_argnums=0)(x + 0),
    "method that is called back": lambda c, x: Model(c).step(x),
    "static argument": lambda c, x: ga.jit(lambda x, n: x * n + c, static_argnums=1)(x, 3),
    "eval_shape": lambda c, x: ga.eval_shape(lambda x: x + c, x),
    "make_jaxpr": lambda c, x: ga.make_jaxpr(lambda x: x + c)(x),
    "export": lambda c, x: ga.export.export(ga.jit(lambda x: x + c))(x).call(x),
    "pmap": lambda c, x: ga.pmap(lambda x: x + c)(x[None]),
    "map": lambda c, x: lax.map(lambda x: x + c, x[None]),
    "switch": lambda c, x: lax.switch(0, [lambda x: x + c, lambda x: x], x),
    "checkify": lambda c, x: checkify.checkify(lambda x: x + c)(x),
    "shard_map": lambda c, x: ga.shard_map(
        lambda x: x + c, mesh=ga.make_mesh((1,), "i"), in_specs=ga.P(), out_specs=ga.P()
    )(x),
    "eager": lambda c, x: x + c,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("size", [3, 1 << 17])
def test_constants_go_with_the_function(use, size):
    x = gnp.ones(size)
    alive = []
    for i in range(5):
        c = gnp.full(size, float(i + 1)).block_until_ready()
        alive.append(weakref.ref(c))
        ga.block_until_ready(USES[use](c, x))
        del c
    gc.collect()
    assert [r() for r in alive] == [None] * 5


def test_600_dead_functions_leave_one_program():
    """Programs that differ in the values of constants alone are one."""
    x = gnp.ones(MEGABYTE)
    alive = []
    for i in range(600):
        c = gnp.asarray(np.full(MEGABYTE, i, np.float32))
        alive.append(weakref.ref(c))
        y = ga.jit(lambda x, c=c: x + c)(x)
        assert float(y[-1]) == i + 1
        del c, y
        held = sum(r() is not None for r in alive)
        assert held <= 2, f"after {i} functions {held} constants are alive"
    assert cache.size() < 10


def test_functions_with_other_constants_are_told_apart():
    x = gnp.arange(3.0)
    one, two = gnp.full(3, 1.0), gnp.full(3, 2.0)
    add = [ga.jit(lambda x, c=c: x + c) for c in (one, two)]
    for _ in range(3):
        assert [f(x).tolist() for f in add] == [[1, 2, 3], [2, 3, 4]]
    grad = [ga.grad(lambda x, c=c: ga.jit(lambda x: x * c)(x).sum()) for c in (one, two)]
    for _ in range(3):
        assert [f(x).tolist() for f in grad] == [[1, 1, 1], [2, 2, 2]]


def test_constants_stand_behind_donated_inputs():
    c, d = gnp.full(1 << 17, 3.0), gnp.arange(1 << 17).astype("float32")
    f = ga.jit(lambda x, y: (x * c + d, y - c), donate_argnums=0)
    for i in range(3):
        x, y = gnp.full(1 << 17, float(i)), gnp.ones(1 << 17)
        first, second = f(x, y)
        assert np.array_equal(first, i * 3.0 + np.arange(1 << 17))
        assert float(second[5]) == -2.0 and x.is_deleted() and not y.is_deleted()
    assert float(c[0]) == 3.0


# ---- bounds ----


def test_shapes_without_end():
    config.update("compile_cache_entries", 200)
    f = ga.jit(lambda x: x * 2 + 1)
    for n in range(1, 1500):
        f(np.zeros(n, np.float32))
        assert len(f._cache.programs) + cache.size() <= 200
        assert len(f._cache.entries) <= 100 and len(f._cache.fast) <= 100


def test_bytes_are_bounded_too():
    config.update("compile_cache_bytes", 40 * cache.weight(0))
    f = ga.jit(lambda x: gnp.sin(x) * 2 + 1)
    for n in range(1, 100):
        f(gnp.zeros(n))
        assert len(f._cache.programs) + cache.size() <= 40


def test_many_functions_share_the_bounds():
    config.update("compile_cache_entries", 60)
    functions = [ga.jit(lambda x, i=i: x * i) for i in range(200)]
    for f in functions:
        f(gnp.ones(3))
    assert sum(len(f._cache.programs) for f in functions) <= 60
    assert [float(f(gnp.ones(3))[0]) for f in functions] == list(range(200))


def calls_made(run) -> int:
    """How many functions, Python's and C's, a call calls."""
    count = 0

    def see(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_a_new_shape_costs_the_same_however_many_there_are():
    f = ga.jit(lambda x: x * 2 + 1)
    cost = lambda n: calls_made(functools.partial(f, np.zeros(n, np.float32)))
    for n in range(1000, 2200):
        f(np.zeros(n, np.float32))
    after_many = [cost(n) for n in range(2200, 2230)]
    ga.clear_caches()
    for n in range(1000, 1040):
        f(np.zeros(n, np.float32))
    after_few = [cost(n) for n in range(2300, 2330)]  # shapes that are new as well
    assert sum(after_many) <= 1.02 * sum(after_few)


@pytest.mark.parametrize("kwargs", [{}, {"donate_argnums": 0}], ids=["plain", "donated"])
def test_used_again_after_it_was_put_out(kwargs):
    config.update("compile_cache_entries", 20)
    f = ga.jit(lambda x: x * 2, **kwargs)
    for _ in range(3):
        for n in range(1, 40):
            assert f(gnp.ones(n)).tolist() == [2.0] * n
    assert "first call" in ga.debug.cache_report(10_000)
    last = list(cache.history)[-1]
    assert "put out of the cache" in last.reason and "compile_cache_entries" in last.reason


def test_what_is_used_stays():
    """Between any two uses less than half of what is kept is new: it is never made again."""
    config.update("compile_cache_entries", 100)
    traced = []

    @ga.jit
    def kept(x):
        traced.append(x.shape)
        return x + 1

    others = ga.jit(lambda x: x * 3)
    for n in range(1, 300):
        others(gnp.ones(n))
        assert float(kept(gnp.ones(7))[0]) == 2.0
        assert kept(gnp.ones(5), *()).shape == (5,)
    assert traced == [(7,), (5,)]


def test_threads_and_tight_bounds():
    config.update("compile_cache_entries", 10)
    f = ga.jit(lambda x: x * 2 + 1)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for n in rng.integers(1, 40, 150).tolist():
            if f(gnp.ones(n)).tolist() != [3.0] * n:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(f._cache.programs) + cache.size() <= 10 + 2 * len(threads)


def test_one_thread_makes_what_all_want():
    made, start = [], threading.Barrier(6)

    def make():
        made.append(1)
        return "value"

    one = cache.Cache()
    found = []

    def want():
        start.wait()
        found.append(one.get_or_make("key", make))

    threads = [threading.Thread(target=want) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == ["value"] * 6 and made == [1]


def test_who_waits_for_a_failure_tries_again():
    one, tries = cache.Cache(), itertools.count()

    def make():
        if next(tries) == 0:
            raise ValueError("not yet")
        return 5

    with pytest.raises(ValueError, match="not yet"):
        one.get_or_make("key", make)
    assert one.get_or_make("key", make) == 5


def test_clearing_forgets_everything():
    f = ga.jit(lambda x: lax.scan(lambda c, _: (c + 1, None), x, None, length=3)[0])
    f(gnp.ones(3)), ga.grad(lambda x: f(x).sum())(gnp.ones(3)), gnp.ones(1 << 17) + 1
    ga.clear_caches()
    everything = [f._cache.entries, f._cache.programs, f._cache.fast, f._cache.latest]
    everything += [cache._executables, lazy._ops, tracing.inferred, trace_cache._made]
    assert [len(c) for c in everything] == [0] * 8
    assert f(gnp.ones(3)).tolist() == [4.0] * 3


def test_eager_operations_without_end():
    x = gnp.ones(4)
    limit = lazy._ops._limit
    lazy._ops._limit = 50
    try:
        for i in range(300):
            lax.reduce_precision(x, 5 + i % 3, i % 20)
            x.reshape(2, 2)[:, :1].sum()
        assert len(lazy._ops) <= 50
    finally:
        lazy._ops._limit = limit


def test_graphs_made_of_a_graph_are_bounded():
    f = ga.jit(lambda x: gnp.sin(x) * 2)
    for n in range(1, 150):
        assert ga.vmap(f)(gnp.zeros((n, 2))).shape == (n, 2)
    (program,) = f._cache.programs.values()
    assert len(program.graph.derived) <= 64


def test_settings_without_end():
    for i in range(300):
        config.update("jax_random_seed_offset", i)
    gc.collect()
    assert len(_trace_keys) <= 100


# ---- the dicts themselves ----


def test_recent_keeps_what_is_asked_for():
    recent = Recent(10)
    recent.put("kept", 1)
    for i in range(100):
        recent.put(i, i)
        assert recent.find("kept") == 1
        assert len(recent) <= 10
    assert recent.find(3) is None and recent.find(99) == 99


def test_interned_objects_are_one_while_alive():
    class Thing:
        pass

    interned = Interned(8)
    kept = interned.put("kept", Thing)
    for i in range(100):
        interned.put(i, Thing)
    gc.collect()
    assert len(interned) <= 9
    assert interned.put("kept", Thing) is kept


def test_avals_are_one_while_alive():
    kept = ShapedArray((123, 457), "float32")
    for i in range(2 * avals._interned._limit):
        ShapedArray((i, 9), np.dtype("float32"))
    gc.collect()
    assert len(avals._interned) <= avals._interned._limit + 2000
    assert ShapedArray((123, 457), np.dtype("float32")) is kept
    assert ShapedArray([123, 457], "f4") is kept
    assert ga.jit(lambda x: x)(gnp.ones(3)).aval is gnp.ones(3).aval


def test_a_text_is_compiled_once_for_functions_with_code_of_their_own():
    text = "def add(x):\n    return x + y"
    first, second = (function_of_text(text, "<test>", {"y": y}) for y in (1, 20))
    assert (first(1), second(1), first(1)) == (2, 21, 2)
    assert first.__code__ == second.__code__ and first.__code__ is not second.__code__
    compiled = _code_of.cache_info().misses
    f = ga.jit(lambda x: gnp.sin(x) + 1)
    for n in range(1, 20):
        f(gnp.ones(n))
    assert _code_of.cache_info().misses <= compiled + 6  # of calls and of programs, not of shapes


#: Every dict, list or set of a module, and every function that remembers results without a bound,
#: with what bounds it. A new one belongs into util.Recent, cache.Cache or, with its reason, here.
BOUNDED = {
    "by the dtypes, operations and types that there are": [
        "compiler/text/types.py:_name",
        "core/avals.py:_scalar_avals", "core/primitive.py:registry", "lax/args.py:_numeric",
        "transforms/dead.py:_rules", "control/keeping.py:_rules",
        "primitives/indexing/transforms.py:update_graph", "core/fold.py:extreme",
        "transforms/partial.py:_partial_rules", "core/lattice.py:above",
    ],
    "by what was registered or imported": [
        "extend/backend.py:_watched", "pytree/kinds.py:_registered",
        "interpreters/partial_eval.py:dce_rules", "experimental/hijax.py:_types",
        "export/values.py:_by_name", "export/values.py:_by_type", "sites.py:_replayers",
        "missing.py:_groups", "experimental/sparse/base.py:operations", "ffi.py:_targets",
        "ffi.py:_alive", "api/handlers.py:_services", "api/handlers.py:_type_ids",
        "ffi.py:_kept_types", "api/handlers.py:_deleters",
        "functions/vmappable.py:_ways", "lax/elsewhere.py:_all", "experimental/jet.py:jet_rules",
    ],
    "by the machine: devices, compilers, libraries, texts that come with the package": [
        "compiler/text/prelude.py:blocks", "compiler/text/prelude.py:for_many",
        "compiler/text/prelude.py:_read", "compiler/lower/schedule.py:_stride",
        "compiler/text/types.py:_sizes",
        "util.py:c_function", "backends/cuda/availability.py:missing",
        "backends/cuda/device.py:_gpus",
        "backends/cuda/nccl.py:say_missing", "backends/cuda/graphs.py:_said",
        "backends/cuda/shared_libraries.py:_said",
        "backends/hostcc.py:_runtimes", "backends/hostcc.py:version", "api/handlers.py:_catching",
        "backends/hostcc.py:_watched", "backends/cuda/nvrtc.py:_library",
        "runtime/device.py:_cpus", "runtime/device.py:_gpus",
        "runtime/device.py:_simulators", "runtime/stream.py:_streams",
        "backends/store.py:_passing", "primitives/movement/generate.py:_generator",
        "backends/native/library.py:_tuned", "backends/native/library.py:_processor",
        "backends/native/library.py:_pool", "backends/native/library.py:_pool_with_blas",
        "backends/native/library.py:_functions", "backends/native/arrays.py:are_readable",
        "backends/native/library.py:_libraries_of_c",
    ],
    "by a limit of its own": [
        "backends/cuda/cubins.py:_known", "backends/numpy/memory.py:_free",
        "sites.py:_inside",
    ],
    "by what is alive or under way": [
        "pytree/structure.py:_interned", "backends/cuda/cubins.py:_turns",
        "runtime/key_reuse.py:_used", "backends/simulator.py:_waiting", "sites.py:scopes",
        "backends/hostcc.py:_running", "backends/hostcc.py:_places",
        "backends/cuda/device.py:_elsewhere",
        "experimental/jet.py:terms_up_to", "api/handlers.py:_errors", "api/handlers.py:_memory",
        "api/handlers.py:_futures",
    ],
    "not: simulated kernels are for tests": [
        "backends/simulator.py:_made",
    ],
}  # fmt: skip

_EMPTY = (ast.Dict, ast.List, ast.Set)


def _is_empty(value) -> bool:
    if isinstance(value, ast.Call):
        called = ast.unparse(value.func).rpartition(".")[2]
        return called in ("dict", "list", "set", "defaultdict", "OrderedDict") and not value.args
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, _EMPTY) and not value.elts


def unbounded(path: Path):
    tree = ast.parse(text := path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if "cache" in text else ():
        if isinstance(node, ast.FunctionDef):
            for decorator in map(ast.unparse, node.decorator_list):
                if decorator.removeprefix("functools.") in ("cache", "lru_cache(None)"):
                    yield node.name
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if _is_empty(value):
                yield ast.unparse(target)


def test_every_cache_is_bounded():
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{name}"
        for path in PACKAGE.rglob("*.py")
        for name in unbounded(path)
    }
    known = {name for names in BOUNDED.values() for name in names}
    assert not found - known, "what bounds these?"
    assert not known - found, "these are gone"


# ---- objects ----


def test_a_loop_makes_no_objects_that_stay():
    x = gnp.arange(4.0)
    rows = gnp.ones((3, 4))

    def once(i):
        c = gnp.full(4, 1.0)
        ga.jit(lambda x: (x * c).sum())(x)
        ga.grad(lambda x: gnp.sin(x * c).sum())(x)
        ga.jit(ga.grad(lambda x: (x**2 * c).sum()))(x)
        ga.vmap(lambda row: row @ c)(rows)
        ga.jit(ga.vmap(lambda row: gnp.tanh(row) + c))(rows)

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    for i in range(40):
        once(i)
    before = objects()
    for i in range(400):
        once(i)
    assert objects() <= before + 200


# ---- files ----


def dumped(folder) -> list[str]:
    return sorted(p.name for p in Path(folder).iterdir())


@pytest.mark.parametrize("name", ["f" * 1000, "ü" * 300, "a/b\0c", "\ud800"])
def test_any_function_name_is_dumped(tmp_path, name):
    def f(x):
        return x + 1

    f.__name__ = name
    config.update("dump", str(tmp_path / "new"))
    assert float(ga.jit(f)(1.0)) == 2.0
    names = dumped(tmp_path / "new")
    assert len(names) == 3 and max(map(len, names)) < 160


@pytest.mark.parametrize("kind", ["a file", "no name", "closed"])
def test_a_folder_that_takes_nothing_is_said_once(tmp_path, kind):
    (tmp_path / "file").write_text("")
    folder = {"a file": tmp_path / "file", "no name": "a\0b", "closed": "/proc/none"}[kind]
    cache._say_unwritable.cache_clear()
    config.update("dump", str(folder))
    with pytest.warns(UserWarning, match="cannot be written to") as said:
        assert [float(ga.jit(lambda x, i=i: x + i)(1.0)) for i in range(3)] == [1.0, 2.0, 3.0]
    assert len(said) == 1


# ---- no cycles of references ----

CALLS = {
    "jit": lambda x: ga.jit(lambda y: (y + 1).sum())(x),
    "grad": lambda x: ga.grad(lambda y: (y * y).sum())(x),
    "jitted grad": lambda x: ga.jit(ga.grad(lambda y: (y * y).sum()))(x),
    "vmap": lambda x: ga.vmap(lambda y: y + 1)(x),
    "map": lambda x: ga.tree.map(lambda a: a, {"a": [x]}, is_leaf=lambda a: a is x),
    "paths": lambda x: ga.tree.flatten_with_path({"a": [x]}),
    "walk": lambda x: ga.tree.structure([x, (x,)]).walk(lambda c, _: c, None, [x, x]),
    "reduce": lambda x: ga.tree.reduce_associative(lambda a, b: a + b, [x, x, x]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_leave_no_cycles(name):
    """What is in a cycle stays until Python looks for cycles, with all that it refers to."""
    x = gnp.ones(3)
    CALLS[name](x)
    gc.collect()
    gc.disable()
    try:
        CALLS[name](x)
        assert gc.collect() == 0
    finally:
        gc.enable()
