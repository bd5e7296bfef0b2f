"""The verifier after every pass: planted mistakes are found and named, sound programs pass.

In: plans of small programs, broken in one place each. Out: a BrokenPass that says which pass, which
equation or kernel, and what is wrong. That all other programs pass is seen in every other test: the
setting is on for all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import nn, ops
from gpuarray.compiler import pipeline
from gpuarray.compiler.check import BrokenPass, check_graph, check_steps
from gpuarray.compiler.fuse.group import FusedGroup, Inner, Load
from gpuarray.compiler.lower.kernel import Batch
from gpuarray.compiler.lower.steps import group_in
from gpuarray.config import config
from gpuarray.core.graph import Eqn, Graph, Literal, Var
from gpuarray.primitives.movement import build
from tests.golden import shape

ROWS = shape("float32", 64, 48)


def plan_of(function, *args):
    return ga.jit(function).lower(*args).plan


def program(x, y):
    """Rows, a product, and what comes after it."""
    return gnp.sin(nn.softmax(x) @ y) * 2.0


PLAN = (ROWS, shape("float32", 48, 32))


# ---- graphs ----


def graph_faults() -> dict[str, tuple[Graph, str]]:
    graph = plan_of(program, *PLAN).graph
    first, *rest = graph.eqns
    invars, outvars = graph.invars, graph.outvars

    def with_eqns(eqns, **changes):
        return Graph(**{"invars": invars, "outvars": outvars, "eqns": eqns} | changes)

    stray = Var(graph.invars[0].aval)
    product = next(k for k, e in enumerate(graph.eqns) if e.primitive.name == "dot_general")
    sine = next(k for k, e in enumerate(graph.eqns) if e.primitive.name == "sin")

    def changed(k, **changes):
        eqns = list(graph.eqns)
        eqns[k] = eqns[k].replace(**changes)
        return with_eqns(eqns)

    wrong = Var(outvars[0].aval.update(shape=(3, 3)))
    mul = graph.eqns[-1]
    return {
        "out of order": (with_eqns([*rest, first]), "which nothing before it defines"),
        "never defined": (changed(product, invars=[stray, invars[1]]), "v0?.*nothing before"),
        "defined twice": (with_eqns([*graph.eqns, mul]), "is defined twice"),
        "an input twice": (with_eqns(graph.eqns, invars=[*invars, invars[0]]), "defined twice"),
        "wrong shape": (changed(len(graph.eqns) - 1, outvars=[wrong]), r"is float32\[64,32\] by"),
        "operands refused": (changed(sine, invars=[Literal(np.int32(1))]), "are refused: sin"),
        "results missing": (changed(sine, outvars=[]), "it has 0 results, and 1 by its rule"),
        "no such result": (with_eqns(graph.eqns, outvars=[stray]), "the result .* is defined"),
        "a constant missing": (with_eqns(graph.eqns, constvars=[stray]), "1 constvars, and 0"),
    }


@pytest.mark.parametrize("name", list(graph_faults()))
def test_a_broken_graph_is_found(name):
    graph, message = graph_faults()[name]
    with pytest.raises(BrokenPass, match=message) as caught:
        check_graph("some_pass", graph)
    assert "the pass 'some_pass' broke a program" in str(caught.value)


def test_the_equation_is_shown_among_its_neighbours():
    graph = graph_faults()["out of order"][0]
    with pytest.raises(BrokenPass) as caught:
        check_graph("some_pass", graph)
    head, *lines = str(caught.value).splitlines()
    assert " = " in head and "nothing before" in head
    assert [line[:2] for line in lines[:-1]].count("->") == 1 and 2 <= len(lines) - 1 <= 7
    assert "please report" in lines[-1]


# ---- steps ----


def swapped(plan):
    return plan.steps[::-1]


def twice(plan):
    return [*plan.steps, plan.steps[-1]]


def forgotten(plan):
    return plan.steps[:-1]


STEP_FAULTS = {
    "out of order": (swapped, "which is not in memory by then"),
    "written twice": (twice, "is defined twice"),
    "a result is missing": (forgotten, "is never in memory"),
}


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize("name", list(STEP_FAULTS))
def test_broken_steps_are_found(name, device):
    broken, message = STEP_FAULTS[name]
    plan = plan_of(program, *PLAN)
    plan = plan.on_device if device else plan
    check_steps("fine", plan.graph, plan.steps, lowered=device)
    with pytest.raises(BrokenPass, match=message):
        check_steps("some_pass", plan.graph, broken(plan), lowered=device)


def test_a_library_step_reads_memory_alone():
    """What a group may make for itself is no operand of a step that is none."""
    plan = plan_of(lambda x: x @ gnp.arange(48.0), ROWS)
    without = [s for s in plan.steps if not (isinstance(s, Eqn) and not s.invars)]
    assert len(without) < len(plan.steps)
    with pytest.raises(BrokenPass, match="it reads .* not in memory"):
        check_steps("some_pass", plan.graph, without)


def test_no_view_is_left_but_memory_as_it_lies():
    plan = plan_of(lambda x: (gnp.sin(x), x), ROWS).on_device
    x = plan.graph.invars[0]
    rows, turned = build.piece(x, 0, 8, 4, None), build.transpose(x, (1, 0), None)
    check_steps("fine", plan.graph, [*plan.steps, rows], lowered=True)
    with pytest.raises(BrokenPass, match="transpose.* a view that is not memory as it lies"):
        check_steps("some_pass", plan.graph, [*plan.steps, turned], lowered=True)
    check_steps("fine", plan.graph, [*plan.steps, turned])  # on the host views are steps


# ---- groups ----


def group_of(function, *args) -> tuple[Graph, FusedGroup]:
    plan = plan_of(function, *args).on_device
    (kernel,) = plan.groups
    return plan.graph, group_in(kernel).replace(name=kernel.name)


def remade(group: FusedGroup, change) -> FusedGroup:
    """A copy of a group; `change(k, member)` gives the fields of a member that change."""
    changed = [m.replace(**change(k, m)) for k, m in enumerate(group.members)]
    return group.replace(members=tuple(changed))


def operand(kind, **changes):
    """Changes the first operand of a kind, wherever it is."""
    seen = []

    def change(k, member):
        operands = list(member.operands)
        for i, o in enumerate(operands):
            fields = {n: f(o) for n, f in changes.items()} if isinstance(o, kind) else {}
            if not seen and any(v != getattr(o, n) for n, v in fields.items()):
                seen.append(k)
                operands[i] = o.replace(**fields)
        return {"operands": operands}

    return change


def reduction(**changes):
    def change(k, member):
        reduces = member.eqn.primitive.kind.value == "reduction"
        return {n: f(getattr(member, n)) for n, f in changes.items()} if reduces else {}

    return change


def stranger(old):
    return Var(old.var.aval if isinstance(old, Inner) else old.source.aval)


MEMBER_FAULTS = {
    "operand not made here": (operand(Inner, var=stranger), "not made here"),
    "label of another length": (operand(Load, dims=lambda o: o.dims[::-1]), "runs along"),
    "a load of another shape": (operand(Load, shape=lambda o: (3, 3)), "runs along"),
    "a view of another shape": (operand(Load, views=lambda o: (turned(o.source),)), "is seen as"),
    "an operand in another order": (operand(Inner, order=lambda o: o.order[::-1]), "runs along"),
    "results along other axes": (reduction(dims=lambda d: (1, 0)), "its result .* runs along"),
    "a space that meets itself": (lambda k, m: {"space": (0, 0)}, "meets itself"),
    "a reduced axis kept": (reduction(space=lambda s: s[::-1]), "runs along"),
    "operands lost": (lambda k, m: {"operands": m.operands[:0]}, "it has 0 operands"),
}


def turned(v: Var) -> Eqn:
    return build.transpose(v, (1, 0), None)


@pytest.mark.parametrize("name", list(MEMBER_FAULTS))
def test_a_broken_group_is_found(name):
    change, message = MEMBER_FAULTS[name]
    graph, group = group_of(lambda x: nn.softmax(x), ROWS)
    check_steps("fine", graph, [remade(group, lambda k, m: {})], lowered=True)
    with pytest.raises(BrokenPass, match=f"k0_rows: .*{message}"):
        check_steps("some_pass", graph, [remade(group, change)], lowered=True)


def test_an_axis_that_is_reduced_belongs_to_the_group():
    graph, group = group_of(lambda x: gnp.sum(x * x, axis=1), ROWS)
    broken = group.replace(reduced=frozenset())
    with pytest.raises(BrokenPass, match=r"\[1\] are reduced, but of the group \[\]"):
        check_steps("some_pass", graph, [broken], lowered=True)


def test_outputs_are_made_by_their_group():
    graph, group = group_of(lambda x: gnp.sin(x) + 1.0, ROWS)
    broken = group.replace(outputs=(*group.outputs, Var(ROWS_AVAL)))
    with pytest.raises(BrokenPass, match="its output w.* is not made by it"):
        check_steps("some_pass", graph, [broken], lowered=True)


ROWS_AVAL = gnp.zeros((64, 48), "float32").aval


def test_loads_are_read_or_made():
    graph, group = group_of(lambda x: gnp.sin(x) + 1.0, ROWS)
    broken = group.replace(inputs=())
    with pytest.raises(BrokenPass, match="loads v0.*, which is not read"):
        check_steps("some_pass", graph, [broken], lowered=True)


def test_what_makes_inputs_has_its_own():
    graph, group = group_of(lambda x: gnp.pad(gnp.sin(x), 1) * 2.0, ROWS)
    assert group.inlined
    broken = group.replace(inputs=())
    with pytest.raises(BrokenPass, match="needs v0.*, neither read nor made here"):
        check_steps("some_pass", graph, [broken], lowered=True)
    (v, eqn), *rest = group.inlined.items()
    broken = group.replace(inlined={v: eqn.replace(outvars=[Var(v.aval)])})
    with pytest.raises(BrokenPass, match="is to be made by .*, which does not"):
        check_steps("some_pass", graph, [broken], lowered=True)


def test_members_do_not_wait_for_themselves():
    graph, group = group_of(lambda x: gnp.cos(gnp.sin(x)), ROWS)
    sine, cosine = group.members
    circle = sine.replace(operands=[Inner(cosine.eqn.outvars[0], (0, 1))])
    broken = group.replace(members=(circle, cosine))
    with pytest.raises(BrokenPass, match="needs its own result"):
        check_steps("some_pass", graph, [broken], lowered=True)


def test_groups_in_one_launch_have_their_outputs():
    avals = [shape("float32", 8 * k) for k in range(1, 6)]
    plan = plan_of(lambda *xs: [x * 2.0 for x in xs], *avals).on_device
    (batch,) = plan.groups
    assert isinstance(batch, Batch)
    graph, broken = plan.graph, batch.replace(parts=batch.parts[::-1])
    with pytest.raises(BrokenPass, match="not those of its parts"):
        check_steps("some_pass", graph, [broken], lowered=True)


# ---- when ----


def broken_simplify(graph: Graph) -> Graph:
    return Graph(graph.invars, graph.outvars, graph.eqns[1:])


def test_it_runs_after_each_pass_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(pipeline, "exchange_products", broken_simplify)
    graph = ga.make_jaxpr(lambda x: gnp.cos(gnp.sin(x)))(ROWS).jaxpr
    with pytest.raises(BrokenPass, match="the pass 'broken_simplify' broke"):
        pipeline.plan_graph(graph)
    config.update("check_plans", False)
    pipeline.plan_graph(graph)  # nobody looks
    config.update("debug", 1)
    with pytest.raises(BrokenPass):
        pipeline.plan_graph(graph)


PASSES = (
    "simplify exchange_products split_axes expand_small_products expand_vector_products "
    "take_apart_small_matrices take_apart_small_axes fold_in_tables fuse split_into_passes "
    "fold_columns_with_rows write_side_by_side inline_producers join_tables fuse_epilogues "
    "fuse_product_epilogues fuse_horizontally choose_forms"
).split()


def test_every_pass_is_checked(monkeypatch):
    """Each pass of the pipeline is named to the verifier, with what it made."""
    seen: list[str] = []
    monkeypatch.setattr(pipeline, "check_graph", lambda stage, graph: seen.append(stage))
    monkeypatch.setattr(pipeline, "check_steps", lambda stage, *_, **__: seen.append(stage))

    def all_of(a, b, p, at):
        small = a @ a
        pairs = gnp.sum((p[None] - p[:, None]) ** 2, -1)
        heads = gnp.cumsum(gnp.exp(b).reshape(4, 4, 16).max(2), 0).reshape(16) * 2
        sums = ops.segment_sum(p[:, 0], at, 4)
        return (b @ b).T, (b * 2) @ b[0], gnp.linalg.inv(small), pairs, heads, sums

    args = shape("float32", 128, 3, 3), shape("float32", 16, 16), shape("float32", 64, 3)
    args = *args, shape("int32", 64)
    plan_of(all_of, *args).on_device.steps
    assert list(dict.fromkeys(seen)) == PASSES
    plan_of(all_of, *args).on_native.steps
    assert "split_broadcasts" in seen


def test_it_is_off_for_users():
    program = "from gpuarray import config; print(config.state.check_plans)"
    env = {k: v for k, v in os.environ.items() if k != "GPUARRAY_CHECK_PLANS"}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert run.stdout == "False\n"
