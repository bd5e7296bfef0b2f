"""Instructions are counted by what executes them.

In: kernels with a known number of instructions of one kind. Out: as many are found in their machine
code, on each architecture, since the others of these kernels are the same.
"""

from __future__ import annotations

import pytest

from gpuarray.backends.cuda import nvrtc
from gpuarray.compiler.explain.grades import Instructions
from tests.support.nvrtc import ARCHS, needed

pytestmark = needed

FEW, MANY = 3, 11
#: A statement that is one instruction, by the figure that counts it.
STATEMENTS = {
    "special": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));',
    "logic": 'asm volatile("shf.l.wrap.b32 %0, %0, %1, %1;" : "+r"(k) : "r"(n));',
    "doubles": 'asm volatile("fma.rn.f64 %0, %0, %0, %0;" : "+d"(d));',
    "shared": 'asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(k));',
    "total": 'asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x) : "f"(y));',
}
KINDS = ("logic", "special", "doubles", "shared")


def counted(statements: str, arch: str) -> Instructions:
    text = f"""
extern "C" __global__ void kernel(const float4* from, float4* to, const double* more, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = from[i].x, y = from[i].y;
    double d = more[i];
    int k = __float_as_int(from[i].z);
    {statements}
    to[i] = make_float4(x, y, __int_as_float(k), __double_as_longlong(d) > 0 ? 1.0f : 0.0f);
}}
"""
    return nvrtc.compile(text, arch).instructions["kernel"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", STATEMENTS)
def test_each_kind_is_counted(kind, arch):
    few, many = (counted(n * STATEMENTS[kind], arch) for n in (FEW, MANY))
    more = {x: getattr(many, x) - getattr(few, x) for x in ("total", *KINDS)}
    # What is around them may take an instruction more or less.
    assert abs(more["total"] - (MANY - FEW)) <= 2
    assert {x: n for x, n in more.items() if n and x != "total"} == (
        {} if kind == "total" else {kind: MANY - FEW}
    )


@pytest.mark.parametrize("arch", ARCHS)
def test_accesses_are_counted(arch):
    found = counted("", arch)
    assert (found.accesses, found.wide, found.local) == (3, 2, 0)


def test_local_memory_is_counted():
    found = counted(
        "float z[64]; for (int j = 0; j < n; ++j) z[j & 63] = x * j; x = z[k & 63];", "sm_90"
    )
    assert found.local >= 2


def test_what_is_assembled_has_a_name_each():
    text = 'extern "C" __global__ void NAME(int* to) { to[threadIdx.x] = 1; }'
    made = nvrtc.compile("\n".join(text.replace("NAME", x) for x in "ab"), "sm_90")
    assert made.instructions.keys() == made.kernels.keys() == {"a", "b"}
