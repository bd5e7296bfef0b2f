"""The text of graphs, compared character by character with what users of `make_jaxpr` know.

In: graphs built by hand. Out: their layout, the names of variables, and what stands in front.
"""

import textwrap
import time

import numpy as np
import pytest

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Literal, Var
from gpuarray.core.primitive import Primitive
from gpuarray.core.printing import eqn_text, graph_text

F3 = ShapedArray((3,), np.float32)
F = ShapedArray((), np.float32)


def op(name, **options):
    return Primitive(name, register=False, **options)


SIN, ADD, MUL, SORT = op("sin"), op("add"), op("mul"), op("sort", multiple_results=True)
JIT, COND, CUSTOM = op("jit", multiple_results=True), op("cond"), op("custom_jvp_call")


def var(aval=F3):
    return Var(aval)


def eqn(prim, invars, outs=1, **params):
    outvars = [Var(F3) for _ in range(outs)] if isinstance(outs, int) else outs
    return Eqn(prim, invars, outvars, params)


def chain(n, prim=SIN):
    """sin(sin(...)), n times."""
    vs = [var() for _ in range(n + 1)]
    return Graph([vs[0]], [vs[-1]], [Eqn(prim, [a], [b], {}) for a, b in zip(vs, vs[1:])])


def calls(*inner, name="f"):
    """A graph that calls one inner graph after the other through `jit`."""
    vs = [var() for _ in range(len(inner) + 1)]
    names = [name] * len(inner) if isinstance(name, str) else name
    eqns = [
        Eqn(JIT, [a], [b], {"jaxpr": graph, "name": n})
        for a, b, graph, n in zip(vs, vs[1:], inner, names)
    ]
    return Graph([vs[0]], [vs[-1]], eqns)


def check(graph, expected):
    # A pilcrow ends a line of blanks, which dedent would empty.
    assert str(graph) == textwrap.dedent(expected).strip("\n").replace("¶", "")


def test_small_graphs_stand_on_one_line():
    a, b = var(), var()
    check(Graph([], [], []), "{ lambda ; . let  in () }")
    check(Graph([a], [a], []), "{ lambda ; a:f32[3]. let  in (a,) }")
    check(Graph([a, b], [b, a, a], []), "{ lambda ; a:f32[3] b:f32[3]. let  in (b, a, a) }")
    check(chain(2), "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = sin b in (c,) }")


def test_constants_literals_and_unused_results():
    c, a = var(), var()
    e1, e2 = eqn(ADD, [a, c]), eqn(MUL, [Literal(2.0), a])
    check(
        Graph([a], [e1.outvars[0], Literal(1)], [e1, e2], [c], [np.ones(3, np.float32)]),
        """
        { lambda a:f32[3]; b:f32[3]. let
            c:f32[3] = add b a
            _:f32[3] = mul 2.0:f32[] b
          in (c, 1:i32[]) }
        """,
    )


@pytest.mark.parametrize(
    "value, text",
    [
        (np.float32(0.1), "0.10000000149011612:f32[]"),
        (0.1, "0.1:f32[]"),
        (-0.0, "-0.0:f32[]"),
        (np.float32(np.nan), "nan:f32[]"),
        (-np.inf, "-inf:f32[]"),
        (np.int8(-3), "-3:i8[]"),
        (True, "True:bool[]"),
        (1 + 2j, "(1+2j):c64[]"),
        (np.array(7, np.uint32), "7:u32[]"),
    ],
)
def test_literals(value, text):
    assert eqn_text(eqn(ADD, [Literal(value)])) == f"a:f32[3] = add {text}"


def test_names_of_variables():
    vs = [var(F) for _ in range(26 * 26 + 1)]
    text = str(Graph(vs, [], []))
    assert " y:f32[] z:f32[] ba:f32[] bb:f32[]" in text
    assert text.split(" let")[0].endswith(" zz:f32[] baa:f32[].")


def test_lists_fill_their_lines():
    a = var()
    many = eqn(SORT, [a] * 8, 9, dimension=0, is_stable=True, num_keys=1)
    check(
        Graph([a], many.outvars, [many]),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] c:f32[3] d:f32[3] e:f32[3] f:f32[3] g:f32[3] h:f32[3] i:f32[3] j:f32[3] = sort[
              dimension=0
              is_stable=True
              num_keys=1
            ] a a a a a a a a
          in (b, c, d, e, f, g, h, i, j) }
        """,
    )
    vs = [var() for _ in range(30)]
    # An empty body keeps its line.
    check(
        Graph(vs, vs, []),
        """
        { lambda ; a:f32[3] b:f32[3] c:f32[3] d:f32[3] e:f32[3] f:f32[3] g:f32[3] h:f32[3]
            i:f32[3] j:f32[3] k:f32[3] l:f32[3] m:f32[3] n:f32[3] o:f32[3] p:f32[3] q:f32[3]
            r:f32[3] s:f32[3] t:f32[3] u:f32[3] v:f32[3] w:f32[3] x:f32[3] y:f32[3] z:f32[3]
            ba:f32[3] bb:f32[3] bc:f32[3] bd:f32[3]. let
            ¶
          in (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y,
            z, ba, bb, bc, bd) }
        """,
    )


def test_params_are_sorted_and_shown_by_the_rule():
    rule = op("iota", show=lambda p: {k: v for k, v in p.items() if k != "hidden"})
    a = eqn(rule, [], shape=(3,), dtype=np.dtype("int32"), hidden=1)
    assert eqn_text(a) == "a:f32[3] = iota[dtype=int32 shape=(3,)] "
    # Addresses would make the text different in every process.
    b = eqn(op("call"), [var()], callback=test_params_are_sorted_and_shown_by_the_rule)
    assert "at 0xXXXXXXXXXXXX>" in eqn_text(b)


def test_an_equation_without_results():
    a = var()
    assert eqn_text(eqn(op("debug_print"), [a], 0, fmt="{}")) == "debug_print[fmt={}] a"


def test_a_call_shares_names_with_its_graph():
    a = var()
    p, q, r = var(), var(), var()
    inner = Graph([p, q], [r, p], [Eqn(ADD, [p, q], [r], {})])
    call = eqn(JIT, [a, a], 2, jaxpr=inner, name="f")
    check(
        Graph([a], call.outvars[:1], [call]),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] _:f32[3] = jit[
              name=f
              jaxpr={ lambda ; a:f32[3] c:f32[3]. let b:f32[3] = add a c in (b, a) }
            ] a a
          in (b,) }
        """,
    )


def test_nested_calls():
    check(
        calls(calls(calls(chain(1)))),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = jit[
              name=f
              jaxpr={ lambda ; a:f32[3]. let
                  b:f32[3] = jit[
                    name=f
                    jaxpr={ lambda ; a:f32[3]. let
                        b:f32[3] = jit[
                          name=f
                          jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
                        ] a
                      in (b,) }
                  ] a
                in (b,) }
            ] a
          in (b,) }
        """,
    )


def test_other_inner_graphs_get_names_of_their_own():
    a, i = var(), var(ShapedArray((), np.int32))
    cond = eqn(COND, [i, a], branches=(chain(1), chain(0)))
    custom = eqn(CUSTOM, cond.outvars, call_jaxpr=chain(1, MUL), name="g", jvp="rule")
    check(
        Graph([i, a], custom.outvars, [cond, custom]),
        """
        { lambda ; a:i32[] b:f32[3]. let
            c:f32[3] = cond[
              branches=(
                { lambda ; d:f32[3]. let e:f32[3] = sin d in (e,) }
                { lambda ; f:f32[3]. let  in (f,) }
              )
            ] a b
            g:f32[3] = custom_jvp_call[
              name=g
              call_jaxpr={ lambda ; h:f32[3]. let i:f32[3] = mul h in (i,) }
              jvp=rule
            ] c
          in (g,) }
        """,
    )


def test_graphs_used_twice_stand_in_front():
    f, other, g = chain(1), chain(1, MUL), chain(1, ADD)
    check(
        calls(f, other, g, other, f, name=["f", "f", "b", "f", "f"]),
        """
        let f = { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) } in
        let f1 = { lambda ; c:f32[3]. let d:f32[3] = mul c in (d,) } in
        { lambda ; e:f32[3]. let
            g:f32[3] = jit[name=f jaxpr=f] e
            h:f32[3] = jit[name=f jaxpr=f1] g
            i:f32[3] = jit[
              name=b
              jaxpr={ lambda ; h:f32[3]. let i:f32[3] = add h in (i,) }
            ] h
            j:f32[3] = jit[name=f jaxpr=f1] i
            k:f32[3] = jit[name=f jaxpr=f] j
          in (k,) }
        """,
    )


def test_graphs_in_front_come_level_by_level():
    deep = calls(chain(1), name="deep")
    a, i = var(), var(ShapedArray((), np.int32))
    cond = eqn(COND, [i, a], branches=(deep, deep))
    check(
        Graph([i, a], cond.outvars, [cond]),
        """
        let jaxpr = { lambda ; a:f32[3]. let
            b:f32[3] = jit[name=deep jaxpr=deep] a
          in (b,) } in
        let deep = { lambda ; c:f32[3]. let d:f32[3] = sin c in (d,) } in
        { lambda ; e:i32[] f:f32[3]. let
            g:f32[3] = cond[branches=(jaxpr jaxpr)] e f
          in (g,) }
        """,
    )


def test_long_graphs_stand_in_front():
    assert str(calls(chain(10))).startswith("{ lambda ; a")
    assert str(calls(chain(11), name="<lambda>")).startswith("let lambda = { lambda ; a")


def test_one_graph_shared_many_times_is_visited_a_few_times():
    graph = chain(1)
    for _ in range(60):  # 2**60 paths
        graph = calls(graph, graph)
    assert str(graph).count("let f") == 60


def test_source_info():
    g = chain(2)
    g.eqns[0].site = "user.py:3 (f)"
    assert graph_text(g, source_info=True) == (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = sin b in (c,) } # user.py:3 (f)"
    )
    assert graph_text(calls(g), source_info=True).splitlines()[4:7] == [
        "          c:f32[3] = sin a           # user.py:3 (f)",
        "          b:f32[3] = sin c",
        "        in (b,) }",
    ]


def test_deep_graphs_print_in_linear_time():
    start = time.perf_counter()
    text = str(chain(20_000))
    assert text.count("\n") == 20_001
    assert time.perf_counter() - start < 5  # 0.2 s here; quadratic would be minutes
