"""What is compiled is kept, and believed only when all of it fits.

In: folders and files as an attacker, a full disk or a crash would leave them. Out: machine code
that was compiled for exactly what is asked for, or a clear error; never what lies there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pathlib
import random
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from gpuarray.backends import store
from gpuarray.backends.cuda import cubins
from gpuarray.backends.cuda.nvrtc import CompileResult, Resources
from gpuarray.config import config
from gpuarray.errors import DeviceError
from tests.support import ROOT

OPTIONS, VERSION = ("-lineinfo",), (13, 0)


def machine_code(source: str, arch: str = "sm_90", options=OPTIONS) -> bytes:
    """What the compiler of these tests makes: it depends on everything it is given."""
    return b"\x7fELF" + repr((source, arch, tuple(options))).encode()


class Compiler:
    """Counts how often it is asked."""

    def __init__(self, seconds: float = 0.0):
        self.calls, self.seconds = 0, seconds

    def __call__(self, source: str, arch: str, options) -> CompileResult:
        self.calls += 1
        time.sleep(self.seconds)
        found = {"k0": Resources(len(source), 0, 16), "k1": Resources(8)}
        return CompileResult(machine_code(source, arch, options), "", 0.0, found)


@pytest.fixture
def compiler():
    return Compiler()


@pytest.fixture
def cache(tmp_path):
    """The folder of cubins, which is not there yet; nothing in memory."""
    tmp_path.chmod(0o700)
    config.update("cache_dir", str(tmp_path))
    forget()
    yield tmp_path / "cubins"
    forget()


def forget() -> None:
    """As in a new process: what was kept for this one goes too."""
    cubins.forget()
    cubins._store._room.clear()
    for process, path in list(store._passing.items()):
        store._remove_passing(process, path)


def load(compiler, source="a source", arch="sm_90", options=OPTIONS, version=VERSION):
    return cubins.load(source, arch, options, version, compiler)


def loaded_anew(compiler, source="a source"):
    """From the folder, not from memory; right, whatever lies there."""
    cubins.forget()
    found = load(compiler, source)
    assert found.data == machine_code(source)
    assert found.resources["k0"] == Resources(len(source), 0, 16)
    return found


def only_file(cache) -> pathlib.Path:
    (found,) = cache.iterdir()
    return found


# ---- what is kept ----


def test_compiled_once_and_found_in_memory_and_on_disk(cache, compiler):
    first = load(compiler)
    assert first.data == machine_code("a source")
    assert first.resources == {"k0": Resources(8, 0, 16), "k1": Resources(8)}
    assert first.path.parent == cache and first.path.read_bytes().startswith(first.data)
    assert load(compiler) is first
    assert loaded_anew(compiler) == first and compiler.calls == 1
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(cache).stat().st_mode) == 0o600


def test_folders_that_were_missing_are_closed_to_others(tmp_path, compiler):
    tmp_path.chmod(0o700)
    config.update("cache_dir", str(tmp_path / "one" / "two"))
    before = os.umask(0)
    try:
        load(compiler, "in new folders")
    finally:
        os.umask(before)
    for path in (tmp_path / "one", tmp_path / "one/two", tmp_path / "one/two/cubins"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(tmp_path / "one/two/cubins").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "other",
    [
        {"source": "another source"},
        {"arch": "sm_80"},
        {"options": ()},
        {"options": ("-lineinfo", "-G")},
        {"options": ("-lineinfo -G",)},
        {"version": (13, 1)},
        {"version": (1, 30)},
        {"source": 'a source"], "x'},
    ],
    ids=str,
)
def test_each_part_of_the_key_counts(cache, compiler, other):
    load(compiler)
    found = load(compiler, **other)
    expected = {"source": "a source", "arch": "sm_90", "options": OPTIONS} | other
    expected.pop("version", None)
    assert compiler.calls == 2 and found.data == machine_code(**expected)
    assert len(list(cache.iterdir())) == 2
    load(compiler)
    cubins.forget()
    load(compiler, **other)
    assert compiler.calls == 2


def test_what_the_compiler_is_always_told_is_part_of_the_key(cache, compiler, monkeypatch):
    load(compiler)
    monkeypatch.setattr(cubins.nvrtc, "OPTIONS", ("--std=c++20",))
    load(compiler)
    assert compiler.calls == 2


def test_a_hash_that_collides_changes_nothing(cache, compiler, monkeypatch):
    monkeypatch.setattr(store, "_name", lambda key: hashlib.sha256(key).hexdigest()[:2])
    sources = [f"source {i}" for i in range(600)]
    for source in sources * 2:
        loaded_anew(compiler, source)
    assert len(list(cache.iterdir())) <= 256 and compiler.calls > 600
    before = compiler.calls
    loaded_anew(compiler, sources[-1])
    assert compiler.calls == before


def test_a_failed_compile_leaves_nothing(cache, compiler):
    def refuse(*args):
        raise DeviceError("the compiler says no")

    with pytest.raises(DeviceError, match="says no"):
        load(refuse)
    assert load(compiler).data == machine_code("a source") and compiler.calls == 1


def test_eight_threads_compile_once(cache):
    compiler = Compiler(0.05)
    start, found = threading.Barrier(8), []

    def run() -> None:
        start.wait()
        found.append(load(compiler).data)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert compiler.calls == 1 and found == [machine_code("a source")] * 8
    assert not cubins._turns


def test_memory_is_bounded(cache, compiler, monkeypatch):
    monkeypatch.setattr(cubins, "IN_MEMORY", 200)
    for i in range(20):
        load(compiler, f"source {i}")
    assert 1 < len(cubins._known) <= 4
    load(compiler, "source 19")
    load(compiler, "source 0")  # from the folder
    assert compiler.calls == 20


def test_a_folder_that_was_emptied_is_filled_again(cache, compiler):
    load(compiler)
    only_file(cache).unlink()
    assert load(compiler).path.exists() and compiler.calls == 2


def test_without_a_cache_the_folder_is_not_made(cache, compiler):
    config.update("enable_compilation_cache", False)
    found = load(compiler, "kept for now")
    assert not cache.exists() and found.path.read_bytes().startswith(found.data)
    assert stat.S_IMODE(found.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(found.path.parent.stat().st_mode) == 0o700


# ---- what lies there ----


def symlink(path: pathlib.Path) -> None:
    there = path.parent.parent / "elsewhere"
    path.rename(there)
    path.symlink_to(there)


def hard_link(path: pathlib.Path) -> None:
    os.link(path, path.parent.parent / "elsewhere")


def fifo(path: pathlib.Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def device(path: pathlib.Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def readable_by_all(path: pathlib.Path) -> None:
    path.chmod(0o644)


def writable_by_all(path: pathlib.Path) -> None:
    path.chmod(0o666)


def unreadable(path: pathlib.Path) -> None:
    path.chmod(0o000)


def truncated(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def halved(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def longer(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def of_another_source(path: pathlib.Path) -> None:
    """A whole file, well made, for another key: named wrongly, or a hash that collides."""
    load(Compiler(), "the other source")
    other = next(p for p in path.parent.iterdir() if p != path)
    other.rename(path)


def of_another_gpu(path: pathlib.Path) -> None:
    load(Compiler(), arch="sm_80")
    other = next(p for p in path.parent.iterdir() if p != path)
    other.rename(path)


def without_a_key(path: pathlib.Path) -> None:
    code = b"\x7fELF evil"
    path.write_bytes(code + hashlib.sha256(code).digest())


def sizes_that_lie(path: pathlib.Path) -> None:
    data = b"evil" + store._SIZES.pack(store._MAGIC, 1 << 62, 1 << 62, 1 << 62)
    path.write_bytes(data + hashlib.sha256(data).digest())


FILES = [
    symlink, hard_link, fifo, device, readable_by_all, writable_by_all, unreadable, truncated,
    halved, empty, longer, of_another_source, of_another_gpu, without_a_key, sizes_that_lie,
]  # fmt: skip


@pytest.mark.parametrize("hostile", FILES, ids=lambda f: f.__name__)
def test_a_file_that_is_not_quite_right_is_made_again(cache, compiler, hostile):
    load(compiler)
    path = only_file(cache)
    hostile(path)
    loaded_anew(compiler)
    assert compiler.calls == 2
    assert path.lstat().st_nlink == 1 and stat.S_ISREG(path.lstat().st_mode)
    loaded_anew(compiler)
    assert compiler.calls == 2  # what was made again is believed


def test_a_file_of_another_user_is_made_again(cache, compiler, monkeypatch):
    load(compiler)
    honest = os.fstat

    def foreign(fd: int):
        found = honest(fd)
        if not stat.S_ISREG(found.st_mode):
            return found
        fields = list(found)
        fields[stat.ST_UID] += 1
        return os.stat_result(fields)

    monkeypatch.setattr(store.os, "fstat", foreign)
    loaded_anew(compiler)
    assert compiler.calls == 2


def test_a_file_that_is_too_large_is_not_read(cache, compiler):
    load(compiler)
    path = only_file(cache)
    with open(path, "r+b") as file:
        file.truncate(cubins._store.largest + 1)  # sparse
    loaded_anew(compiler)
    assert compiler.calls == 2 and path.stat().st_size < 1000


def test_a_folder_in_the_place_of_a_file_is_said(cache, compiler):
    load(compiler)
    path = only_file(cache)
    path.unlink()
    path.mkdir()
    with pytest.warns(UserWarning, match=r"cannot be kept in .*cubins \(Is a directory\)"):
        loaded_anew(compiler)
    assert path.is_dir() and not [p for p in cache.iterdir() if p != path]


def linked_folder(cache) -> None:
    cache.rename(cache.parent / "elsewhere")
    cache.symlink_to(cache.parent / "elsewhere", target_is_directory=True)


def file_for_a_folder(cache) -> None:
    cache.rename(cache.parent / "elsewhere")
    cache.write_bytes(b"")


def dangling_link(cache) -> None:
    cache.rename(cache.parent / "elsewhere")
    cache.symlink_to(cache.parent / "nowhere")


def open_to_the_group(cache) -> None:
    cache.chmod(0o770)


def open_to_readers(cache) -> None:
    cache.chmod(0o755)


def group_may_rename_it(cache) -> None:
    cache.parent.chmod(0o770)


def all_may_rename_it(cache) -> None:
    cache.parent.chmod(0o777)


FOLDERS = {
    linked_folder: "it is a link or a file",
    file_for_a_folder: "it is a link or a file",
    dangling_link: "it is a link or a file",
    open_to_the_group: r"its mode is 770 \(chmod 700\)",
    open_to_readers: r"its mode is 755 \(chmod 700\)",
    group_may_rename_it: r"others can rename it \(chmod go-w",
    all_may_rename_it: r"others can rename it \(chmod go-w",
}


@pytest.mark.parametrize("hostile", list(FOLDERS), ids=lambda f: f.__name__)
def test_a_folder_that_is_not_quite_right_is_refused(cache, compiler, hostile):
    load(compiler)
    hostile(cache)
    with pytest.raises(DeviceError, match=FOLDERS[hostile]) as caught:
        loaded_anew(compiler)
    assert "GPUARRAY_CACHE_DIR" in str(caught.value)
    assert "must be a folder of your own, closed to others" in str(caught.value)


def test_a_folder_of_another_user_is_refused(cache, compiler, monkeypatch):
    load(compiler)
    monkeypatch.setattr(store.os, "getuid", lambda: os.stat(cache).st_uid + 1)
    with pytest.raises(DeviceError, match=f"it belongs to user {os.stat(cache).st_uid}"):
        loaded_anew(compiler)


def test_a_folder_inside_one_of_another_user_is_refused(cache, compiler, monkeypatch):
    load(compiler)
    honest = os.stat

    def foreign(path, **how):
        found = honest(path, **how)
        if pathlib.Path(path) != cache.parent:
            return found
        fields = list(found)
        fields[stat.ST_UID] = os.getuid() + 1
        return os.stat_result(fields)

    monkeypatch.setattr(store.os, "stat", foreign)
    with pytest.raises(DeviceError, match="the folder it lies in belongs to user"):
        loaded_anew(compiler)


def test_a_sticky_folder_of_all_may_hold_it(cache, compiler):
    load(compiler)
    cache.parent.chmod(0o1777)
    loaded_anew(compiler)
    assert compiler.calls == 1


def test_a_disk_that_takes_nothing_is_said_once_and_worked_around(cache, compiler, monkeypatch):
    honest, asked = os.rename, []

    def full(source, target, **how):
        asked.append(target)
        if len(asked) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        honest(source, target, **how)

    monkeypatch.setattr(store.os, "rename", full)
    with pytest.warns(UserWarning, match=r"cannot be kept in .* \(No space left on device\)"):
        found = loaded_anew(compiler, "for a full disk")
    assert not list(cache.iterdir()) and found.path.read_bytes().startswith(found.data)


def test_a_home_that_cannot_be_written_is_said_and_worked_around(cache, compiler, monkeypatch):
    honest = pathlib.Path.mkdir

    def refuse(self, *args, **how):
        if self == cache:
            raise PermissionError(errno.EACCES, "Permission denied")
        return honest(self, *args, **how)

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.warns(UserWarning, match=r"cannot be kept in .*cubins \(Permission denied\)"):
        loaded_anew(compiler, "for a home that is read-only")


# ---- bits, bounds, many processes ----


def test_ten_thousand_flipped_bits(cache, compiler):
    """Of the bytes as they are read: each would be found in the file."""
    load(compiler)
    path = only_file(cache)
    data, key = path.read_bytes(), cubins_key()
    assert store._unpacked(data, key) == (machine_code("a source"), note_of(compiler))
    rng = random.Random(0)
    bits = [rng.randrange(8 * len(data)) for _ in range(9_800)]
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert store._unpacked(bytes(flipped), key) is None
    for i in range(200):  # in the file, through everything
        bit, calls = rng.randrange(8 * len(data)), compiler.calls
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        loaded_anew(compiler)
        assert compiler.calls == calls + 1 and path.read_bytes() == data, (i, bit)


def cubins_key() -> bytes:
    parts = ["sm_90", list(VERSION), [*cubins.nvrtc.OPTIONS], [*OPTIONS], "a source"]
    return json.dumps(parts).encode()


def note_of(compiler) -> bytes:
    made = compiler("a source", "sm_90", OPTIONS)
    return json.dumps(
        {n: [r.registers, r.spills, r.shared] for n, r in made.kernels.items()}
    ).encode()


def test_every_length_is_survived(cache, compiler):
    load(compiler)
    data, key = only_file(cache).read_bytes(), cubins_key()
    for size in range(len(data)):
        assert store._unpacked(data[:size], key) is None


def test_the_oldest_go_when_the_folder_is_full(cache, compiler, monkeypatch):
    load(compiler, "source 0")
    size = only_file(cache).stat().st_size
    monkeypatch.setattr(cubins._store, "total", 4 * size + size // 2)
    cubins._store._room.clear()
    for i in range(1, 4):
        load(compiler, f"source {i}")
    for i, path in enumerate(sorted(cache.iterdir(), key=lambda p: p.stat().st_mtime_ns)):
        os.utime(path, (1000 + i, 1000 + i))
    loaded_anew(compiler, "source 0")  # in use again
    load(compiler, "source 4")
    assert compiler.calls == 5 and len(list(cache.iterdir())) == 4
    loaded_anew(compiler, "source 0")
    assert compiler.calls == 5
    loaded_anew(compiler, "source 1")  # was the oldest
    assert compiler.calls == 6


def test_what_a_crash_left_is_removed_when_nobody_writes_it_any_more(cache, compiler):
    load(compiler)
    old, new = cache / (store._NEW + "old"), cache / (store._NEW + "new")
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (1000, 1000))
    forget()
    load(compiler, "another")
    assert not old.exists() and new.exists()


def test_an_entry_that_is_too_large_is_not_kept(cache, compiler, monkeypatch):
    monkeypatch.setattr(cubins._store, "largest", 100)
    with pytest.warns(
        UserWarning, match=r"cannot be kept in .* \(an entry takes at most 100 bytes"
    ):
        with pytest.raises(DeviceError, match="cannot be written"):
            load(compiler, "x" * 200)
    assert not list(cache.iterdir())


def test_a_write_does_not_look_at_all_files(cache, compiler, monkeypatch):
    """One look at the folder, and few more until it is full."""
    looks = []
    scan = store.Store._scan
    monkeypatch.setattr(store.Store, "_scan", lambda *args: looks.append(1) or scan(*args))
    load(compiler, "source 0")
    size = only_file(cache).stat().st_size
    monkeypatch.setattr(cubins._store, "total", 2000 * size)
    for i in range(300):
        load(compiler, f"source {i}")
    assert len(list(cache.iterdir())) == 300
    assert 1 <= len(looks) <= 12
    monkeypatch.setattr(cubins._store, "total", 100 * size)
    cubins._store._room.clear()
    for i in range(300, 400):
        load(compiler, f"source {i}")
        assert len(list(cache.iterdir())) <= 100


FILL = """
    import os, sys
    from gpuarray.config import config
    from gpuarray.backends import store

    config.update("cache_dir", sys.argv[1])
    kept = store.Store("filled", ".bin", total=1 << 20)
    children = []
    for number in range(8):
        children.append(os.fork())
        if not children[-1]:
            for i in range(100):
                kept.load(b"%d %d" % (number, i), lambda: (os.urandom(4000), b""))
            os._exit(0)
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


def test_eight_processes_that_fill_a_folder_keep_its_bound(tmp_path):
    tmp_path.chmod(0o700)
    command = [sys.executable, "-c", textwrap.dedent(FILL), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str([0] * 8), done.stderr
    files = list((tmp_path / "filled").iterdir())
    assert len(files) > 150 and sum(f.stat().st_size for f in files) <= 1 << 20


PASSING = """
    import os, sys
    from gpuarray.config import config
    from gpuarray.backends import store

    config.update("cache_dir", sys.argv[1])
    config.update("jax_enable_compilation_cache", sys.argv[2] == "kept")
    kept = store.Store("kind", ".bin")
    first = kept.load(b"key", lambda: (b"code", b"note"))
    assert first.path.read_bytes().startswith(b"code")
    child = os.fork()
    if not child:  # it ends as programs do, and leaves what is its parent's
        kept.load(b"other", lambda: (b"code", b"note"))
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert first.path.exists()
    if sys.argv[3] == "fails":
        raise ValueError("the end")
"""


@pytest.mark.parametrize("how", ["kept", "not kept"])
@pytest.mark.parametrize("end", ["returns", "fails"])
def test_no_folder_is_left_behind(tmp_path, how, end):
    cache, left = tmp_path / "cache", tmp_path / "left"
    cache.mkdir(mode=0o700)
    left.mkdir()
    command = [sys.executable, "-c", textwrap.dedent(PASSING), str(cache), how, end]
    env = {**os.environ, "TMPDIR": str(left)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == (end == "fails"), done.stderr
    assert list(left.iterdir()) == []
    assert (how == "kept") == any(cache.rglob("*.bin"))


RACE = """
    import os, sys, traceback
    from gpuarray.config import config
    from gpuarray.backends.cuda import cubins
    from gpuarray.backends.cuda.nvrtc import CompileResult, Resources

    code = bytes(range(256)) * 4096
    config.update("cache_dir", sys.argv[1])

    def race(number):
        for i in range(20):
            cubins.forget()
            made = lambda *args: CompileResult(code, "", 0.0, {"k": Resources(1)})
            found = cubins.load("raced", "sm_90", (), (13, 0), made)
            assert found.data == code and found.resources == {"k": Resources(1)}
            if i % 5 == number % 5:  # and somebody spoils it
                found.path.unlink(missing_ok=True)
                found.path.write_bytes(code)

    start, go = os.pipe()
    children = []
    for number in range(32):
        children.append(os.fork())
        if not children[-1]:
            os.close(go)
            os.read(start, 1)  # until all are there
            try:
                race(number)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    os.close(go)
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


def test_thirty_two_racing_processes_end_with_one_good_entry(cache, tmp_path_factory):
    command = [sys.executable, "-c", textwrap.dedent(RACE), str(cache.parent)]
    # They end at once and leave the folders of entries that were spoilt under them.
    left = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("left"))}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, env=left)
    assert done.stdout.strip() == str([0] * 32), done.stderr
    code = bytes(range(256)) * 4096
    calls = []

    def again(*args):
        calls.append(args)
        return CompileResult(code, "", 0.0, {"k": Resources(1)})

    for _ in range(2):
        cubins.forget()
        assert cubins.load("raced", "sm_90", (), (13, 0), again).data == code
    assert len(calls) <= 1 and len(list(cache.iterdir())) == 1
