"""What a compiled function sends between devices: for the programs beside this one.

Collectives are equations of the program that every device runs, whether the function names them
(`shard_map`, `pmap`) or the compiler adds them.
"""

from collections import Counter

COLLECTIVES = {"psum", "pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all", "ppermute"}


def exchanges(step, *args) -> tuple[Counter, Counter]:
    """What one device takes part in and gives in one call of a jitted function: how often, and how
    many bytes, for each collective and axis: {"psum along x": 3, ...}, {"psum along x": 120, ...}.

    An exchange inside a loop counts for each turn of it.
    """
    compiled = step.lower(*args).compile()
    compiled(*args)  # partitioned now, for the layout of these arguments
    *_, team = compiled.runtime_executable().teams.values()
    times, sizes = Counter(), Counter()
    _count(team.plan.graph, 1, times, sizes)
    return times, sizes


def _count(graph, turns: int, times: Counter, sizes: Counter) -> None:
    for eqn in graph.eqns:
        # Several small ones that the compiler put together are one exchange.
        name, params = eqn.primitive.name.removesuffix("_together"), eqn.params
        if name in COLLECTIVES:
            axes = params.get("axis_name", params.get("axes"))
            key = f"{name} along {','.join(axes) if isinstance(axes, tuple) else axes}"
            times[key] += turns
            sizes[key] += turns * sum(x.aval.nbytes for x in eqn.invars)
        for value in params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(inner, "eqns"):
                    _count(inner, turns * params.get("length", 1), times, sizes)


def show(title: str, step, *args) -> None:
    """Print the exchanges of one call: "step: 3 psum along x (120 bytes)"."""
    times, sizes = exchanges(step, *args)
    words = (f"{times[key]} {key} ({sizes[key]:,} bytes)" for key in sorted(times))
    print(f"{title}: {', '.join(words) or 'nothing is sent'}")
