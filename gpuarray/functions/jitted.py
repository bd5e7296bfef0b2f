"""Jitted functions: traced once for each kind of input, then only launched.

Floor 6. In: a Python function and the JitOptions that `jit` has checked (jit.py). Out: a callable
whose second call with like arguments costs a dict lookup and a launch. The cache belongs to the
*function*, not to the wrapper, so `jit(f)` written again in a loop still hits.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray import config, errors, sites
from gpuarray.control.call import jit_p
from gpuarray.control.graph_edits import lifted
from gpuarray.core import monitoring, ranges
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of, stated_aval
from gpuarray.core.axes import axis_env
from gpuarray.core.dims import Dim
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.mesh import NamedSharding, contexts
from gpuarray.core.sharding import Place, Sharding, laid_out
from gpuarray.core.tracebacks import boundary, clean
from gpuarray.functions import argnums, misses, stages, structs
from gpuarray.functions.donation import donated_leaves, given_away
from gpuarray.functions.outputs import checked_output
from gpuarray.functions.shardings import ShardingOptions, Where, is_abstract, run
from gpuarray.primitives.reshard import laid
from gpuarray.pytree import tree
from gpuarray.runtime import cache, fastpath, host, key_reuse, lazy
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.execute import Constants, Executable
from gpuarray.runtime.transfer import over_devices
from gpuarray.transforms.passing import Referring
from gpuarray.transforms.references import Ref
from gpuarray.transforms.tracing import ReferenceAccessed, TracedFunction, stage_aux
from gpuarray.util import cached_property, update_wrapper


class JitOptions(NamedTuple):
    """How a function is jitted: part of its cache key."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    shardings: ShardingOptions | None = None
    purpose: str = "jit"  # the purpose of the trace


class Call(NamedTuple):
    """The values of a call, and everything that selects its program."""

    leaves: list
    spec: Any
    statics: tuple
    avals: tuple[ShapedArray, ...]


class TracedProgram(NamedTuple):
    """A traced function for one kind of call."""

    graph: Graph
    out_spec: Any
    donated: frozenset[int]
    info: TracedFunction
    where: Where | None = None


class Entry(NamedTuple):
    """A compiled function for one kind of call."""

    program: TracedProgram
    executable: Executable
    constants: Constants
    fast: Callable[..., Any] | None


# The one type of argument that the generated launcher takes.
_ARRAYS = {ArrayImpl}


class Jitted:
    """A jitted function, called like the original; `.trace` and `.lower` inspect its program."""

    __name__: str

    def __init__(self, fun: Callable, options: JitOptions):
        # update_wrapper replaces this where the function has a name.
        self.__name__ = type(fun).__name__  # of an object that is called; a function has its own
        update_wrapper(self, fun)  # pyright: ignore[reportArgumentType]
        self.__dict__.pop("_signature", None)  # of another jitted function inside
        self._fun = fun
        self._options = options
        self._cache = cache.of_function(fun, options)
        # The dict itself, one attribute away: the hot path of a call reads nothing else.
        self._fast = self._cache.fast
        self._referring: Referring | None = None  # how it is called if it touches references

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        """Found when the function is first traced: importing the package makes 200 of these."""
        return argnums.signature_of(self._fun)

    @property
    def __signature__(self) -> inspect.Signature | None:
        return self._signature

    def __call__(self, *args, **kwargs):
        try:  # a boundary of tracebacks, without the cost of a function
            if ranges.session is not None:
                at = {"called at": str(sites.user_frame())}
                with ranges.Range(f"jit {self.__name__}", "jit", at):
                    return self._general_call(args, kwargs)
            # The hot path: arrays only, no trace around. One lookup by the avals, then a generated
            # launcher.
            if not kwargs and traces.state.trace is lazy.base:
                try:
                    # The settings that tracing depends on are in the key, so changing one misses.
                    fast = self._fast.get((config.state.trace_key, *[a._known_aval for a in args]))
                except AttributeError:  # containers, Python scalars, NumPy arrays, traced values
                    fast = None
                if fast is not None:
                    return fast(*args)
            return self._general_call(args, kwargs)
        except Exception as error:
            clean(error)
            raise

    def _general_call(self, args: tuple, kwargs: dict):
        # As JAX does: with disable_jit the plain Python function runs, operation by operation.
        if config.state.disable_jit:
            return self._fun(*args, **kwargs)
        # Most functions use no mutable reference: find out by tracing, and remember the answer.
        if self._referring is None:
            try:
                return self._call_without_references(args, kwargs)
            except ReferenceAccessed as touched:
                # References that the function closes over: from now on they are arguments and
                # results.
                self._referring = self._with_references(touched.refs)
            except TypeError:
                # A Ref among the arguments has no aval. Any other TypeError is the user's.
                if not any(isinstance(x, Ref) for x in tree.flatten_raw((args, kwargs))[0]):
                    raise
                self._referring = self._with_references([])
        return self._referring(args, kwargs)

    def _with_references(self, touched: list[Ref]) -> Referring:
        options = self._options
        statics = options.static_argnums, options.static_argnames
        pure = lambda fun: _Pure(fun, _shifted(options))
        return Referring(self._fun, self._signature, statics, pure, touched, argnums.leaf_names)

    def _call_without_references(self, args: tuple, kwargs: dict):
        # The three steps of every call: flatten the arguments, find or make the program, run it.
        call = self._take_apart(args, kwargs)
        # Everything that selects the program: settings, structure, static values, shapes and
        # dtypes.
        key = (config.state.trace_key, call.spec, call.statics, call.avals)
        # Under grad, vmap or an outer jit nothing runs now: the call becomes an equation. The same
        # holds for a traced value outside its trace (ensure_compile_time_eval).
        kinds = {*map(type, call.leaves)}
        if traces.state.trace is not lazy.base or any(issubclass(t, traces.Tracer) for t in kinds):
            return self._bind(call, (*key, named) if (named := axis_env()) else key)
        try:
            entry = self._cache.entries.get(key)
        except Exception as error:
            if not call.statics or isinstance(error, TypeError):
                raise
            raise argnums.uncomparable(self.__name__, call.statics, error) from error
        if entry is None:
            # A new entry, or one of the previous generation, which was removed from the fast ones
            # too.
            entry = self._cache.entries.get_or_make(key, lambda: self._compile(call, key))
        leaves = call.leaves
        arrays = self._concrete(call, args, kwargs)
        if self._checks_keys():
            key_reuse.use_up_operands(entry.program.graph, leaves)
        fast = entry.fast
        # The fast dict is keyed by avals alone, so only calls of plain arrays by position may go
        # there: the first of them, whether or not NumPy arrays were given before.
        if arrays and fast and not kwargs and len(leaves) == len(args):
            if {*map(type, args)} <= _ARRAYS:
                self._fast[(config.state.trace_key, *call.avals)] = fast
        if fast is not None and ranges.session is None:
            return fast(*leaves)
        return _launch(entry.program, entry.executable, entry.constants, *leaves)

    def _checks_keys(self) -> bool:
        if not config.state.debug_key_reuse:
            return False
        # Library functions that samplers consist of get keys that were already checked.
        package = (getattr(self._fun, "__module__", None) or "").partition(".")[0]
        return package != __name__.partition(".")[0] or not self.__name__.startswith("_")

    def _concrete(self, call: Call, args: tuple, kwargs: dict) -> bool:
        """Make concrete arrays of the leaves; return whether all of them were."""
        leaves = call.leaves
        arrays = True
        try:
            for i, x in enumerate(leaves):
                # NumPy arrays and Python scalars; out-of-range integers are found here.
                if type(x) is not ArrayImpl:
                    leaves[i] = host.from_host(x, call.avals[i])
                    arrays = False
        except errors.UnexpectedTracerError:
            raise
        except (OverflowError, TypeError) as error:
            argnums.explain_bad_leaf(self._fun, self._signature, args, kwargs, error)
            raise
        return arrays

    # ---- tracing and compiling ----
    def _take_apart(self, args: tuple, kwargs: dict, aval: Callable = aval_of) -> Call:
        options = self._options
        statics: list = []
        if options.static_argnums or options.static_argnames:
            args, kwargs, statics = self._split_statics(args, kwargs)
        leaves, spec = tree.flatten_raw((args, kwargs))
        try:
            avals = tuple([aval(x) for x in leaves])
        except (TypeError, OverflowError) as error:
            if Dim not in map(type, leaves):
                argnums.explain_bad_leaf(self._fun, self._signature, args, kwargs, error)
                raise
            # A symbolic length counts as the number that it will be.
            leaves = [x.__jax_array__() if type(x) is Dim else x for x in leaves]
            avals = tuple([aval(x) for x in leaves])
        return Call(leaves, spec, argnums.Statics(statics) if statics else (), avals)

    def _split_statics(self, args: tuple, kwargs: dict):
        nums, names = self._options.static_argnums, self._options.static_argnames
        statics = []
        kept = []
        positions = {n if n >= 0 else len(args) + n for n in nums}
        for i, value in enumerate(args):
            if i in positions:
                statics.append((i, argnums.hashable(value, i)))
                kept.append(None)  # a placeholder, so that positions do not shift
            else:
                kept.append(value)
        dynamic = {}
        for name in sorted(kwargs):
            if name in names:
                statics.append((name, argnums.hashable(kwargs[name], name)))
            else:
                dynamic[name] = kwargs[name]
        return tuple(kept), dynamic, statics

    def _program(self, call: Call, key: tuple) -> TracedProgram:
        """Trace the function for one kind of call."""
        if self._signature is not None:
            self._check_signature(call, self._signature)
        # 1. Names of the arguments in messages.
        args, kwargs = tree.unflatten_raw(call.spec, call.leaves)
        purpose = self._options.purpose
        info = TracedFunction(self._fun, purpose, argnums.leaf_names(self._signature, args, kwargs))
        statics = dict(call.statics)

        def flat(*tracers):
            args, kwargs = tree.unflatten_raw(call.spec, tracers)
            if statics:
                # Static values return to the places that `_split_statics` kept for them.
                args = tuple(statics.get(i, a) for i, a in enumerate(args))
                kwargs = kwargs | {k: v for k, v in statics.items() if isinstance(k, str)}
            result = self._fun(*args, **kwargs)
            leaves, out_spec = tree.flatten_raw(result)
            return [checked_output(x, result, i, info) for i, x in enumerate(leaves)], out_spec

        # 2. The types that arguments have inside: with in_shardings, those that these give them.
        shardings, avals = self._options.shardings, call.avals
        dynamic = tuple(a for i, a in enumerate(args) if i not in statics)
        if shardings is not None:
            given = shardings.for_arguments(dynamic, kwargs, avals, info.arg_names)
            avals = [a if s is None else _typed(a, s) for a, s in zip(avals, given, strict=True)]
        # Run the Python function once, on tracers.
        traced = monitoring.timed(monitoring.TRACED, fun_name=self.__name__)
        misses.explain(self._cache, key, info)
        with ranges.during(f"trace {self.__name__}", "compile"), traced:
            staged = misses.timed(info, lambda: stage_aux(flat, avals, info, threads=True))
        graph, out_spec = staged
        # The place of each result, if options of `jit` give it.
        where = None
        if shardings is not None:
            result = tree.unflatten_raw(out_spec, graph.out_avals)
            where = shardings.for_call(dynamic, kwargs, result, graph, info.arg_names)
        options = self._options
        # 3. Which leaves are given away, by number from here on.
        donated = donated_leaves(call.spec, options.donate_argnums, options.donate_argnames)
        return TracedProgram(graph, out_spec, donated, info, where)

    def _check_signature(self, call: Call, signature: inspect.Signature) -> None:
        args, kwargs = tree.unflatten_raw(call.spec, call.leaves)
        statics = {k: v for k, v in call.statics if isinstance(k, str)}
        try:
            signature.bind(*args, **kwargs, **statics)
        except TypeError as error:
            if hasattr(self._fun, "__wrapped__"):  # a wrapper may take other arguments
                return
            name = getattr(self._fun, "__qualname__", repr(self._fun))
            raise TypeError(f"{name}(): {error}") from None

    def _compile(self, call: Call, key: tuple) -> Entry:
        if config.state.no_tracing:
            raise RuntimeError(
                f"re-tracing function {self.__name__} for `jit`, but 'no_tracing' is set"
            )
        # Why it is compiled, while the calls before are still known: cache_report shows it.
        reason = self._cache.why(key)
        # Trace (unless `trace` or an outer jit has), then compile.
        program = self._cache.programs.get_or_make(key, lambda: self._program(call, key))
        graph = program.graph
        if program.where is not None:
            program.where.check_runs()
        # `trace` shows the user's donations; the running program donates only those that save
        # memory.
        program = program._replace(donated=given_away(graph, program.donated))
        executable, constants = cache.compiled_graph(graph, self.__name__, reason, program.donated)
        fast = _fast_launcher(program, executable, constants)
        known = self._cache
        known.latest.append(key)
        known.seen.put(hash(key), True)
        return Entry(program, executable, constants, fast)

    def _bind(self, call: Call, key: tuple):
        """Record the call as one equation of the trace around it."""
        # Under named axes the key has them too: collectives mean something else there.
        program = self._cache.programs.find(key)
        if program is None:
            program = self._program(call, key[:4])
            # A graph that holds tracers is of this outer trace only.
            if not any(isinstance(c, traces.Tracer) for c in program.graph.consts):
                self._cache.programs.put(key, program)
        # Constants become operands: an inner Graph holds no arrays, so that equal ones are shared.
        if self._checks_keys():
            key_reuse.use_up_operands(program.graph, call.leaves)
        graph, consts = lifted(program.graph)
        where = program.where
        given = call.leaves
        if where is not None and where.device is None:
            # Inside a program in_shardings are constraints: nothing is moved there.
            given = [_laid(x, s) for x, s in zip(given, where.ins, strict=True)]
        leaves = [*consts, *given]
        # Donation is kept for `make_jaxpr` to show; the outermost call decides about memory.
        donated = tuple(i in program.donated for i in range(len(call.leaves)))
        # inline=True: its equations join the outer graph. If it has its own device, the call is
        # needed.
        if self._options.inline and where is None:
            out = evaluate(graph, *leaves)
        else:
            out = jit_p.bind(
                *leaves,
                name=self.__name__,
                jaxpr=graph,
                donated_invars=donated if any(donated) else None,
                keep_unused=self._options.keep_unused,
                inline=False,
                device=None if where is None else where.device,
            )
        if where is not None and where.device is None:
            out = [_laid(x, s) for x, s in zip(out, where.outs, strict=True)]
        return tree.unflatten_raw(program.out_spec, out)

    # ---- looking inside ----
    @boundary
    def trace(self, *args, **kwargs) -> stages.Traced:
        """Trace for these arguments (arrays, or objects with shape and dtype) without running."""
        touched = []
        args, kwargs = structs.with_references((args, kwargs))
        if not any(isinstance(x, Ref) for x in tree.flatten_raw((args, kwargs))[0]):
            try:
                return self._traced(args, kwargs)
            except ReferenceAccessed as signal:
                # Refs that the function closes over: trace again, with their values as arguments.
                touched += signal.refs
        referring = self._with_references(touched)
        traced, _ = referring.apply(args, kwargs, lambda jitted, *given: jitted._traced(*given))
        traced.touched = referring.touched
        return traced

    def _traced(self, args: tuple, kwargs: dict) -> stages.Traced:
        call = self._take_apart(args, kwargs, stated_aval)
        key = (config.state.trace_key, call.spec, call.statics, call.avals)
        program = self._cache.programs.get_or_make(key, lambda: self._program(call, key))
        stages.check_stated(call.leaves, program.info)
        return stages.Traced(
            program.graph,
            _without_statics(call),
            program.out_spec,
            program.donated,
            self.__name__,
            program.where,
            tuple(map(_place_of, call.leaves)),
            program.info.arg_names,
            tuple(map(_promised, call.leaves)),
        )

    @boundary
    def lower(self, *args, **kwargs) -> stages.Lowered:
        """Trace and simplify without running: `.lower(x).compile().as_text()`."""
        return self.trace(*args, **kwargs).lower()

    @boundary
    def eval_shape(self, *args, **kwargs):
        """The result's structure as ShapeDtypeStructs, without running."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Drop the traced and compiled programs of this function."""
        self._cache.clear()

    _clear_cache = clear_cache

    def _cache_size(self) -> int:
        return len(self._cache.entries)

    def __get__(self, instance, owner=None):
        # In a class it is bound as a method, like the function that it wraps.
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        try:
            return f"<PjitFunction of {self._fun!r}>"
        except Exception:  # of the function's own __repr__
            return "<PjitFunction>"

    def __reduce__(self):
        return _jitted, (self._fun, self._options)


def _fast_launcher(
    program: TracedProgram, executable: Executable, constants: Constants
) -> Callable[..., Any] | None:
    """Return a launcher that reads only buffers; None if calls need more."""
    state, where = config.state, program.where
    # Donated arrays are marked as deleted, and checks look at values: both at each call.
    if program.donated or state.debug_nans or state.debug_infs:
        return None
    if state.no_execution or state.debug_key_reuse:
        return None
    # A launcher does not hold the Jitted: caches of a function must not keep it alive.
    general = functools.partial(_launch, program, executable, constants)
    # Over several devices: by a mesh in the program or in context, or by shardings of `jit`.
    around = contexts.concrete is not None and contexts.concrete.is_spread
    if executable.meshes or (around if where is None else where.device is None):
        outs = (None,) * len(program.graph.outvars) if where is None else where.outs
        return fastpath.several(executable, constants, outs, program.out_spec, general)
    # On one device, any one: the device of the arguments.
    free = where is None and executable.device is None and constants.over is None
    if free and fastpath.fits(executable):
        return fastpath.generate(executable, constants, program.out_spec, general)
    return None


def _without_statics(call: Call) -> Any:
    """The structure of the arguments of the compiled function: static ones are constants."""
    if not call.statics:
        return call.spec
    fixed = dict(call.statics)
    args, kwargs = tree.unflatten_raw(call.spec, call.leaves)
    return tree.flatten_raw((tuple(a for i, a in enumerate(args) if i not in fixed), kwargs))[1]


def _laid(x: Any, sharding: Sharding | None) -> Any:
    if sharding is not None and not isinstance(sharding, NamedSharding):
        raise TypeError(f"a jitted function inside another takes a NamedSharding, got {sharding}")
    return laid(x, sharding)


def _place_of(x: Any) -> Place | None:
    """Return the place of an argument of `trace`, real or declared; None if it is open."""
    if type(x) is ArrayImpl:
        return x._place
    if isinstance(x, stages.ShapeDtypeStruct) and isinstance(x.sharding, Sharding):
        sharding = x.sharding
        if isinstance(sharding, NamedSharding):
            sharding = over_devices(sharding)  # None: the devices are not known yet
        return None if sharding is None else laid_out(sharding)
    return None


def _typed(aval: ShapedArray, sharding: Sharding) -> ShapedArray:
    """Return the type of an argument after in_shardings are applied."""
    if is_abstract(sharding):
        return aval.update(sharding=sharding)
    return laid_out(sharding).typed(aval)


def _promised(x: Any) -> NamedSharding | None:
    """Return the sharding of an argument of `trace` over a mesh without devices."""
    sharding = x.sharding if isinstance(x, stages.ShapeDtypeStruct) else None
    return sharding if is_abstract(sharding) and over_devices(sharding) is None else None


def _launch(
    program: TracedProgram, executable: Executable, constants: Constants, *leaves: Any
) -> Any:
    """Run a program in general: any devices, pending inputs, donation, work in flight."""
    inputs = list(leaves)
    # `run` takes the inputs away; a check of the results evaluates the program again with them.
    kept = list(inputs) if config.state.debug_nans or config.state.debug_infs else None
    arrays = run(executable, inputs, program.donated, program.where, constants, program.info)
    if kept is not None:
        info = program.info
        lazy.check_results(program.graph, info.name, info, kept, arrays)
    return tree.unflatten_raw(program.out_spec, arrays)


def _jitted(fun, options):
    return Jitted(fun, options)


class _Pure(Jitted):
    """A function whose references are arguments: those it still touches are for its caller."""

    def _general_call(self, args: tuple, kwargs: dict):
        return self._call_without_references(args, kwargs)


def _shifted(options: JitOptions) -> JitOptions:
    """The options of a function that takes one more argument, the first."""
    # Numbers from the front move by one; those from the end stay where they are.
    move = lambda nums: tuple(n + 1 if n >= 0 else n for n in nums)
    return options._replace(
        static_argnums=move(options.static_argnums), donate_argnums=move(options.donate_argnums)
    )
