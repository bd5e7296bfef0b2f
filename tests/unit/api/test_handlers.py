"""Handlers of XLA's typed foreign function interface, and functions that get memory alone.

The handlers are compiled here. Their structures are written down from the interface's C header a
second time: those of the package have to agree with these, and not with themselves.
"""

import ctypes
import gc
import importlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import ffi
from gpuarray.backends import hostcc

TEXT = r"""
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <vector>
struct Head { size_t size; void* extension; };
struct Buffer { Head head; int dtype; void* data; int64_t rank; int64_t* dims; };
struct Buffers { Head head; int64_t size; int* types; Buffer** items; };
struct Span { const char* data; size_t size; };
struct Scalar { int dtype; void* value; };
struct Array { int dtype; size_t size; void* data; };
struct Attributes { Head head; int64_t size; int* types; Span** names; void** items; };
struct Message { Head head; const char* text; int code; };
struct Block { Head head; void* context; size_t size, alignment; void* data; };
struct Freed { Head head; void* context; size_t size; void* data; };
struct Task { Head head; void* context; void (*run)(void*); void* data; };
struct Count { Head head; void* context; int64_t* count; };
struct Future { Head head; void* future; void* error; };
struct Type { Head head; Span name; int64_t* id; void* info; };
struct State;
struct Table {
  Head head; struct { Head head; int major, minor; } version; void* internal;
  void* (*error)(Message*); void* message; void* destroy; void* add;
  void* (*stream)(Future*); void* (*type)(Type*); void* context;
  void* (*set)(State*); void* (*get)(State*);
  void* (*allocate)(Block*); void* (*free)(Freed*); void* (*schedule)(Task*);
  void* (*threads)(Count*); void* (*promise)(Future*); void* (*keep)(Future*);
  void* (*fail)(Future*); void* run; void* ordinal;
};
struct Frame {
  Head head; Table* api; void* context; int stage; Buffers in, out; Attributes attributes;
  void* future;
};
static void* error(Frame* f, int code, const char* text) {
  Message m{{sizeof m, nullptr}, text, code};
  return f->api->error(&m);
}
static int64_t count(Buffer* b) {
  int64_t n = 1;
  for (int64_t i = 0; i < b->rank; ++i) n *= b->dims[i];
  return n;
}

// What the frame says, as numbers: sizes, the stage, dtypes, ranks and dimensions.
extern "C" void* describe(Frame* f) {
  int64_t* o = (int64_t*)f->out.items[0]->data;
  *o++ = f->head.size == offsetof(Frame, future) && f->api->head.size == sizeof(Table);
  *o++ = f->api->version.major * 100 + f->api->version.minor;
  *o++ = f->stage;
  *o++ = f->in.size;
  for (int64_t i = 0; i < f->in.size; ++i) {
    Buffer* b = f->in.items[i];
    *o++ = b->dtype;
    *o++ = b->rank;
    for (int64_t k = 0; k < b->rank; ++k) *o++ = b->dims[k];
  }
  return nullptr;
}

// Attributes in their order: the length of the name, the kind, and what is in it.
static double* written(Attributes* a, double* o) {
  for (int64_t i = 0; i < a->size; ++i) {
    *o++ = a->names[i]->size * 100 + a->types[i];
    if (a->types[i] == 1) {
      Array* x = (Array*)a->items[i];
      *o++ = x->dtype;
      for (size_t k = 0; k < x->size; ++k) *o++ = ((int32_t*)x->data)[k];
    } else if (a->types[i] == 2) {
      o = written((Attributes*)a->items[i], o);
    } else if (a->types[i] == 3) {
      Scalar* x = (Scalar*)a->items[i];
      *o++ = x->dtype;
      *o++ = x->dtype == 1   ? *(bool*)x->value
             : x->dtype == 5 ? *(int64_t*)x->value
             : x->dtype == 11 ? *(float*)x->value
                              : *(double*)x->value;
    } else {
      Span* x = (Span*)a->items[i];
      *o++ = x->size;
      *o++ = x->data[0];
    }
  }
  return o;
}
extern "C" void* attributes(Frame* f) {
  written(&f->attributes, (double*)f->out.items[0]->data);
  return nullptr;
}

// Rows of length n over their root mean square.
extern "C" void* normalise(Frame* f) {
  Buffer *x = f->in.items[0], *y = f->out.items[0];
  if (x->rank == 0) return error(f, 3, "normalise needs rows");
  int64_t n = x->dims[x->rank - 1];
  for (int64_t r = 0; r < count(x); r += n) {
    const float* p = (float*)x->data + r;
    float s = 0;
    for (int64_t i = 0; i < n; ++i) s += p[i] * p[i];
    for (int64_t i = 0; i < n; ++i) ((float*)y->data)[r + i] = p[i] / std::sqrt(s / n);
  }
  return nullptr;
}

extern "C" void* copy(Frame* f) {
  static const int bytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 0, 8, 2, 0, 16, 1, 1};
  for (int64_t i = 0; i < f->in.size; ++i)
    std::memcpy(f->out.items[i]->data, f->in.items[i]->data,
                count(f->in.items[i]) * bytes[f->in.items[i]->dtype]);
  return nullptr;
}

extern "C" void* add_one_in_place(Frame* f) {
  float* y = (float*)f->out.items[0]->data;
  if (y != f->in.items[0]->data) return error(f, 13, "not the same memory");
  for (int64_t i = 0; i < count(f->in.items[0]); ++i) y[i] += 1;
  return nullptr;
}

// Memory, a task and the number of threads; the task adds what lies in the memory.
struct Job { const int32_t *x, *extra; int32_t* y; int64_t n; };
static void work(void* data) {
  Job* j = (Job*)data;
  for (int64_t i = 0; i < j->n; ++i) j->y[i] = j->x[i] + j->extra[i];
}
extern "C" void* with_services(Frame* f) {
  int64_t n = count(f->in.items[0]), threads = 0;
  Block block{{sizeof block, nullptr}, f->context, (size_t)n * 4, 256, nullptr};
  if (void* e = f->api->allocate(&block)) return e;
  if ((uintptr_t)block.data % 256) return error(f, 13, "alignment");
  Count c{{sizeof c, nullptr}, f->context, &threads};
  if (void* e = f->api->threads(&c)) return e;
  if (threads < 1) return error(f, 13, "threads");
  for (int64_t i = 0; i < n; ++i) ((int32_t*)block.data)[i] = 10 * i;
  Job job{(int32_t*)f->in.items[0]->data, (int32_t*)block.data, (int32_t*)f->out.items[0]->data, n};
  Task task{{sizeof task, nullptr}, f->context, work, &job};
  if (void* e = f->api->schedule(&task)) return e;
  Freed freed{{sizeof freed, nullptr}, f->context, (size_t)n * 4, block.data};
  int64_t first = 0, again = 0;
  for (int64_t* id : {&first, &again}) {
    Type type{{sizeof type, nullptr}, {"some type", 9}, id, nullptr};
    if (void* e = f->api->type(&type)) return e;
  }
  if (!first || first != again) return error(f, 13, "types");
  return f->api->free(&freed);
}

extern "C" void* later(Frame* f) {
  Future made{{sizeof made, nullptr}, nullptr, nullptr};
  if (void* e = f->api->promise(&made)) return e;
  f->future = made.future;
  float x = *(float*)f->in.items[0]->data;
  *(float*)f->out.items[0]->data = 3 * x;
  if (x < 0) made.error = error(f, 13, "negative");
  return x < 0 ? f->api->fail(&made) : f->api->keep(&made);
}

extern "C" void* throws(Frame* f) {
  float x = *(float*)f->in.items[0]->data;
  if (x < 0) std::vector<int>(1).at(2);
  if (x > 0) throw 3;
  throw std::runtime_error("nothing to throw");
}

// A counter, which begins where the attribute says.
extern "C" int64_t counter_id = 0;
extern "C" int ended = 0;
struct State { Head head; void* context; int stage; int64_t* id; void* state; };
struct Info { Head head; void (*end)(void*); };
extern "C" Info counter_info = {{sizeof(Info), nullptr}, [](void* p) { delete (int*)p; ++ended; }};
extern "C" void* start(Frame* f) {
  if (f->stage != 0 || f->in.size || f->out.size) return error(f, 13, "not instantiated");
  int* begin = new int(*(int64_t*)((Scalar*)f->attributes.items[0])->value);
  State s{{sizeof s, nullptr}, f->context, 0, &counter_id, begin};
  return f->api->set(&s);
}
extern "C" void* counted(Frame* f) {
  State s{{sizeof s, nullptr}, f->context, 0, &counter_id, nullptr};
  if (void* e = f->api->get(&s)) return e;
  *(int*)f->out.items[0]->data = ++*(int*)s.state;
  return nullptr;
}

extern "C" void* streams(Frame* f) {
  Future made{{sizeof made, nullptr}, f->context, nullptr};
  return f->api->stream(&made);
}
"""


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handlers")
    (folder / "handlers.cpp").write_text(TEXT)
    command = [hostcc.compiler(), "-std=c++17", "-O1", "-shared", "-fPIC"]
    subprocess.run(
        [*command, str(folder / "handlers.cpp"), "-o", str(folder / "handlers.so")], check=True
    )
    found = ctypes.CDLL(str(folder / "handlers.so"))
    names = "describe attributes normalise copy add_one_in_place with_services later streams throws"
    for name in names.split():
        ffi.register_ffi_target(name, ffi.pycapsule(getattr(found, name)), platform="cpu")
    return found


def like(*shape, dtype="float32"):
    return ga.ShapeDtypeStruct(shape, np.dtype(dtype))


ROWS = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def normal(x):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True))


def test_what_a_handler_is_told():
    with ga.enable_x64():
        told = ffi.ffi_call("describe", like(16, dtype="int64"))
        found = told(ROWS, np.ones((2,), bool), np.complex128(1), gnp.ones((0,), "bfloat16"))
    # f32[3,4], pred[2], c128[], bf16[0]: the numbers of dtypes are those of XLA.
    assert found.tolist() == [1, 3, 3, 4, 11, 2, 3, 4, 1, 1, 2, 18, 0, 16, 1, 0]


def test_attributes():
    with ga.enable_x64():
        call = ffi.ffi_call("attributes", like(23, dtype="float64"))
        given = {
            "yes": True,
            "count": -5,
            "scale": 2.5,
            "eps": np.float32(0.5),
            "text": "hello",
            "list": np.array([7, 8], np.int32),
            "more": {"k": 3},
        }
        found = ga.jit(lambda: call(**given))().tolist()
    # In the order of their names: count, eps, list, more, scale, text, yes.
    wanted = [[503, 5, -5], [303, 11, 0.5], [401, 4, 7, 8], [402, 103, 5, 3]]
    wanted += [[503, 12, 2.5], [404, 5, 104], [303, 1, 1]]
    assert found == sum(wanted, [])
    for bad, error, words in (
        ({1}, TypeError, "Non-hashable keyword argument to ffi_call a"),
        ([1, 2], TypeError, "Non-hashable keyword argument to ffi_call a"),
        (1j, TypeError, "a real number, str"),
        (None, TypeError, "a real number, str"),
        (2**70, OverflowError, "too large"),
    ):
        with pytest.raises(error, match=words):
            call(a=bad)


def test_programs():
    call = ffi.ffi_call("normalise", like(3, 4), vmap_method="broadcast_all")
    np.testing.assert_allclose(call(ROWS), normal(ROWS), rtol=1e-6)
    np.testing.assert_allclose(ga.jit(lambda x: 2 * call(x + 1))(ROWS), 2 * normal(ROWS + 1), 1e-6)
    many = np.stack([ROWS, ROWS**2])
    np.testing.assert_allclose(ga.vmap(call)(many), normal(many), rtol=1e-6)
    twice = ga.lax.scan(lambda c, _: (call(c + 1), None), ROWS, None, length=2)[0]
    np.testing.assert_allclose(twice, normal(normal(ROWS + 1) + 1), rtol=1e-6)
    for transform in (ga.grad, lambda f: lambda x: ga.jvp(f, (x,), (x,))):
        with pytest.raises(ValueError, match="FFI call to `normalise` cannot be differentiated"):
            transform(lambda x: call(x).sum())(ROWS)


@pytest.mark.parametrize(
    "method", ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")
)
def test_vmap(method):
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(2, np.float32)
    call = ffi.ffi_call("copy", [like(2)], vmap_method=method)
    np.testing.assert_array_equal(ga.vmap(call)(x)[0], x)
    if method != "expand_dims":  # where the function gets y once, and would have to repeat it
        two = ffi.ffi_call("copy", [like(2), like(2)], vmap_method=method)
        found = ga.vmap(two, in_axes=(0, None))(x, y)
        np.testing.assert_array_equal(found[1], np.broadcast_to(y, (3, 2)))
    with pytest.raises(NotImplementedError, match="ffi_call primitive when vmap_method"):
        ga.vmap(ffi.ffi_call("copy", [like(2)]))(x)


@pytest.mark.parametrize(
    "dtype",
    (*"bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split(), "float16", "float32")
    + ("float64", "complex64", "complex128", "bfloat16", "float8_e5m2", "float8_e4m3fn"),
)
def test_dtypes(dtype):
    with ga.enable_x64():
        x = gnp.array([0, 1, 2]).astype(dtype)
        (found,) = ffi.ffi_call("copy", [x])(x)
        assert found.dtype == x.dtype and found.tolist() == x.tolist()


def test_sizes_keys_and_several():
    assert ffi.ffi_call("copy", [like(0, 2)])(np.ones((0, 2), np.float32))[0].shape == (0, 2)
    assert ffi.ffi_call("copy", [], has_side_effect=True)() == []
    found = ffi.ffi_call("copy", (like(), {"a": like(2)}))(np.float32(3), np.ones(2, np.float32))
    assert isinstance(found, tuple) and float(found[0]) == 3 and found[1]["a"].tolist() == [1, 1]
    words = ffi.ffi_call("copy", [like(2, dtype="uint32")])(ga.random.key(7))[0]
    np.testing.assert_array_equal(words, ga.random.key_data(ga.random.key(7)))


def test_layouts():
    def call(i, o):
        return ffi.ffi_call("copy", [like(3, 4)], input_layouts=i, output_layouts=o)(ROWS)[0]

    columns = ga.experimental.layout.Layout((1, 0))
    for turned in ((1, 0), columns):
        np.testing.assert_array_equal(call([turned], [turned]), ROWS)
        np.testing.assert_array_equal(call([turned], None), ROWS.T.reshape(3, 4))
        np.testing.assert_array_equal(call(None, [turned]), ROWS.reshape(4, 3).T)
    single = ffi.ffi_call("copy", like(3, 4), output_layouts=(1, 0), vmap_method="broadcast_all")
    both = ga.vmap(single)(np.stack([ROWS, 2 * ROWS]))
    np.testing.assert_array_equal(both[1], 2 * ROWS.reshape(4, 3).T)
    with pytest.raises(ValueError, match=r"number of inputs \(1\) must equal .* layouts \(2\)"):
        call([(0, 1), (0, 1)], None)
    with pytest.raises(ValueError, match="no order of the 2 axes"):
        call([(0, 0)], None)


@pytest.mark.on_cpu("handlers are functions of the host")
def test_operands_whose_memory_is_a_results():
    x = gnp.ones(3)
    call = ffi.ffi_call("add_one_in_place", like(3), input_output_aliases={0: 0})
    assert call(x).tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]
    assert ga.jit(lambda x: call(x) + x)(x).tolist() == [3, 3, 3]
    with pytest.raises(ga.errors.JaxRuntimeError, match="^INTERNAL: not the same memory$"):
        ffi.ffi_call("add_one_in_place", like(3))(x)
    for aliases, shape, words in (
        ({1: 0}, 3, "input index 1 outside"),
        ({0: 1}, 3, "output index 1 outside"),
        ({0: 0}, 4, "different abstract value"),
    ):
        with pytest.raises(ValueError, match=words):
            ffi.ffi_call("add_one_in_place", like(shape), input_output_aliases=aliases)(x)
    with pytest.raises(ValueError, match="different layout"):
        ffi.ffi_call("copy", like(3, 4), input_output_aliases={0: 0}, output_layouts=(1, 0))(ROWS)


@pytest.mark.on_cpu("handlers are functions of the host")
def test_what_handlers_ask_for():
    x = np.arange(3, dtype=np.int32)
    found = ffi.ffi_call("with_services", like(3, dtype="int32"))(x)
    assert found.tolist() == [0, 11, 22]
    call = ffi.ffi_call("later", like())
    assert float(call(np.float32(2))) == 6
    with pytest.raises(ga.errors.JaxRuntimeError, match="^INTERNAL: negative$"):
        call(np.float32(-1))
    with pytest.raises(ga.errors.JaxRuntimeError, match="^UNIMPLEMENTED: streams: not available"):
        ffi.ffi_call("streams", [])()


@pytest.mark.on_cpu("handlers are functions of the host")
def test_errors(library):
    with pytest.raises(ga.errors.JaxRuntimeError, match="^INVALID_ARGUMENT: normalise needs rows$"):
        ffi.ffi_call("normalise", like())(np.float32(1))
    with pytest.raises(ValueError, match="All elements of result_shape_dtypes .* position 1"):
        ffi.ffi_call("copy", [like(), None])
    with pytest.raises(ValueError, match="allowed methods"):
        ffi.ffi_call("copy", [like()], vmap_method="somehow")
    with pytest.raises(ValueError, match="requires custom_call_api_version < 4"):
        ffi.ffi_call("copy", [like()], legacy_backend_config="1")
    ffi.register_ffi_target("elsewhere", library.copy, platform="CUDA")
    with pytest.raises(NotImplementedError, match="registered for cuda only"):
        ffi.ffi_call("elsewhere", [like()])(np.float32(1))
    with pytest.raises(TypeError, match="float4_e2m1fn"):
        ffi.ffi_call("copy", [like()])(np.zeros((), ml_dtypes.float4_e2m1fn))
    # A target may be registered after the function that calls it was made.
    late = ffi.ffi_call("registered late", like())
    assert ga.eval_shape(late, like()).shape == () and ga.jit(late).lower(like())
    program = ga.jit(late)
    for call in (late, program):
        with pytest.raises(ValueError, match="no function 'registered late' is registered"):
            call(np.float32(1))
    ffi.register_ffi_target("registered late", {"execute": library.copy})
    assert float(late(np.float32(5))) == float(program(np.float32(5))) == 5
    for stages in ({"execute": library.copy, "begin": library.copy}, {"prepare": library.copy}):
        with pytest.raises(ValueError, match="the stages of a handler are instantiate, prepare"):
            ffi.register_ffi_target("x", stages)


@pytest.mark.on_cpu("handlers are functions of the host")
def test_exceptions_are_errors():
    call = ffi.ffi_call("throws", like())
    for x, words in ((0, "nothing to throw"), (1, "no std::exception"), (-1, "vector")):
        with pytest.raises(ga.errors.JaxRuntimeError, match=f"^INTERNAL: a C.. exception.*{words}"):
            call(np.float32(x))


@pytest.mark.on_cpu("handlers are functions of the host")
def test_state_between_calls(library):
    number = ctypes.c_int64.in_dll(library, "counter_id")
    info = ctypes.addressof(ctypes.c_byte.in_dll(library, "counter_info"))
    pointers = {"type_id": ctypes.pointer(number), "type_info": ctypes.c_void_p(info)}
    ffi.register_ffi_type("counter", pointers)
    assert number.value > 0
    stages = {"instantiate": library.start, "execute": library.counted}
    ffi.register_ffi_target("counted", stages)
    call = ffi.ffi_call("counted", like(dtype="int32"), has_side_effect=True)
    ended = ctypes.c_int.in_dll(library, "ended")
    x = np.int32(0)
    two_places = ga.jit(lambda x: (call(x, begin=10), call(x, begin=20)))
    assert [tuple(map(int, two_places(x))) for _ in range(2)] == [(11, 21), (12, 22)]
    assert [int(call(x, begin=10)) for _ in range(2)] == [11, 12]  # outside, its own
    before = ended.value
    del two_places
    ga.clear_caches()
    gc.collect()
    assert ended.value == before + 2
    # A stage that is not there has set no state.
    ffi.register_ffi_target("counted", {"execute": library.counted})
    with pytest.raises(ga.errors.JaxRuntimeError, match="^NOT_FOUND: the stage instantiate"):
        call(x, begin=10)
    with pytest.raises(TypeError, match="type_id"):
        ffi.register_ffi_type("other", {})


def test_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(FileNotFoundError, match="install jaxlib"):
        ffi.include_dir()
    folder = tmp_path / "jaxlib" / "include"
    folder.mkdir(parents=True)
    (tmp_path / "jaxlib" / "__init__.py").touch()
    importlib.invalidate_caches()
    # Even where `import jaxlib` means something else.
    monkeypatch.setitem(sys.modules, "jaxlib", ga)
    assert ffi.include_dir() == str(folder)
