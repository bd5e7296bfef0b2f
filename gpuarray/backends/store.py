"""Compiled code on disk, in a private folder whose entries are verified before use.

Floor 4. In: a key (everything that the code depends on) and a function that makes the code. Out:
`StoredCode`, read from the folder, or made and kept there. Files in the folder are executed, so:

- The folder must belong to the user, be closed to others, be no link, and be in a place where
  nobody else can rename it; otherwise it is refused (DeviceError). It is opened once per call, and
  all files are accessed relative to that descriptor.
- A file is used only if it is a regular file of the user's with mode 0600, one name, a plausible
  size and the right digest, and was made for this very key: the name is a hash, the key inside is
  compared in full. Otherwise it is made again.
- A file appears under its name atomically and complete. The oldest ones are removed when the
  folder is full.

Nothing is unpickled or evaluated. The code is at the beginning of the file: loaders of libraries
and of cubins use the sizes in their headers and ignore the rest.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import pathlib
import stat
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuarray.config import state
from gpuarray.core import monitoring
from gpuarray.errors import DeviceError
from gpuarray.util import lazy_module

hashlib = lazy_module("hashlib")
platformdirs = lazy_module("platformdirs", "GPUARRAY_CACHE_DIR names a folder without it.")
secrets = lazy_module("secrets")
shutil = lazy_module("shutil")
tempfile = lazy_module("tempfile")

# The file format: a change of it needs a new magic, which makes old files invalid.
_MAGIC = b"gpuarr01"
_SIZES = struct.Struct("<8sQQQ")  # magic; bytes of code, note and key
_DIGEST = 32
_NEW = ".new-"  # prefix of files that are being written
_FORGOTTEN = 3600.0  # seconds after which such a file is abandoned
#: A full folder is emptied by this part; and this many processes may fill it before all have
#: looked.
_PART, _PROCESSES = 16, 32


class StoredCode(NamedTuple):
    """Code, a note of its maker, and the file that begins with the code."""

    path: pathlib.Path
    code: bytes
    note: bytes


class Store:
    """A folder of entries of one kind.

    Parameters
    ----------
    folder :
        Name of the subfolder of the cache.
    suffix :
        Suffix of its files.
    largest, total :
        The most bytes of one entry, and of all.
    """

    def __init__(self, folder: str, suffix: str, largest: int = 1 << 28, total: int = 1 << 30):
        self.name, self.suffix = folder, suffix
        self.largest, self.total = largest, total
        # Bytes that this process may write to a folder (by device and inode) before it scans it.
        self._room: dict[tuple[int, int], int] = {}
        self._told: pathlib.Path | None = None  # a folder for which a warning was already given

    def path(self) -> pathlib.Path:
        """Return where the folder is, or would be."""
        # The user's choice first; otherwise the system's folder for caches.
        chosen = state.compilation_cache_dir or state.cache_dir
        home = pathlib.Path(chosen) if chosen else platformdirs.user_cache_path("gpuarray")
        return home.absolute() / self.name

    def find(self, key: bytes) -> StoredCode | None:
        """Return the entry of a key if there is a valid one."""
        name = _name(key) + self.suffix
        start = time.perf_counter()
        # Read from the cache, or from this process's temporary folder if it has one.
        homes = [self.path()] if state.enable_compilation_cache else []
        known = _passing.get(os.getpid())
        for home in homes if known is None else [*homes, pathlib.Path(known, self.name)]:
            with contextlib.suppress(OSError), _opened(home) as folder:
                if (found := self._read(folder, name, key)) is not None:
                    monitoring.events(monitoring.ASKED)
                    monitoring.events(monitoring.FOUND)
                    monitoring.lasted(monitoring.READ, time.perf_counter() - start)
                    return StoredCode(home / name, *found)
        return None

    def load(self, key: bytes, make: Callable[[], tuple[bytes, bytes]]) -> StoredCode:
        """Return the entry of a key; `make() -> (code, note)` if there is no valid one."""
        found = self.find(key)
        if found is not None:
            return found
        name = _name(key) + self.suffix
        homes = [self.path()] if state.enable_compilation_cache else []
        monitoring.events(monitoring.ASKED)
        # Make it, and keep it; a folder that cannot be written to costs a warning only.
        code, note = make()
        monitoring.events(monitoring.MADE)
        data = _packed(code, note, key)
        for home in homes:
            try:
                return StoredCode(self._kept(home, name, data), code, note)
            except OSError as error:
                if home == self._told:  # warn once, and not for each of a hundred kernels
                    continue
                self._told = home
                warnings.warn(
                    f"compiled code cannot be kept in {home} ({error.strerror}): other processes "
                    "will compile again. Choose another folder with GPUARRAY_CACHE_DIR.",
                    stacklevel=2,
                )
        # A loader needs a file: the temporary folder.
        try:
            return StoredCode(self._kept(_passing_folder() / self.name, name, data), code, note)
        except OSError as error:
            raise DeviceError(f"compiled code cannot be written: {error}") from error

    def _kept(self, home: pathlib.Path, name: str, data: bytes) -> pathlib.Path:
        """Write a new file in a folder, which is made if it is missing; return its path."""
        _make_folders(home)
        with _opened(home) as folder:
            self._write(folder, name, data)
        return home / name

    # ---- files ----
    def _read(self, folder: int, name: str, key: bytes) -> tuple[bytes, bytes] | None:
        """Return code and note of a file if it is valid, else None."""
        # Do not block on a FIFO, or follow a link.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(name, flags, dir_fd=folder)
        except OSError:
            return None
        with open(file, "rb") as opened:
            # The open file is examined, and not its name, which could be replaced meanwhile.
            found = os.fstat(file)
            plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            # A digest proves that the content is complete; owner and mode, that no other user wrote
            # it.
            own = found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o600
            if not plain or not own or found.st_size > self.largest:
                return None
            try:
                unpacked = _unpacked(opened.read(self.largest + 1), key)
            except OSError:
                return None
            if unpacked is not None:
                with contextlib.suppress(OSError):
                    os.utime(file)  # recently used files are removed last
            return unpacked

    def _write(self, folder: int, name: str, data: bytes) -> None:
        """Write a file under its name, atomically and complete."""
        if len(data) > self.largest:
            raise OSError(errno.EFBIG, f"an entry takes at most {self.largest} bytes")
        # Written under a random name and then renamed: readers see all of a file or nothing.
        new = _NEW + secrets.token_hex(8)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600, dir_fd=folder), "wb") as file:
            try:
                os.fchmod(file.fileno(), 0o600)  # independently of the umask
                file.write(data)
                file.flush()
                os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new, dir_fd=folder)
                raise
        self._prune(folder, name, len(data))

    def _prune(self, folder: int, but: str, written: int) -> None:
        """Remove abandoned files, and the oldest entries if all take too much.

        Scanning every file takes longer than writing one, so a process scans once, and again when
        it has written its share of the room that there was.
        """
        found = os.fstat(folder)
        place = found.st_dev, found.st_ino
        # Scanned again only when this process has used up its share of the room.
        left = self._room.get(place, 0) - written
        if left <= 0:
            left = max(0, self._scan(folder, but)) // _PROCESSES
        self._room[place] = left

    def _scan(self, folder: int, but: str) -> int:
        """Scan all files and remove some if needed; return the bytes that are free then."""
        files, taken = [], 0
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    found = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(found.st_mode):
                        taken += found.st_size
                        if entry.name != but:
                            files.append((found.st_mtime, found.st_size, entry.name))
        # More is removed than necessary, so that not every further entry has to remove one.
        full = taken > self.total
        goal = self.total - self.total // _PART
        for age, size, name in sorted(files):
            forgotten = name.startswith(_NEW) and age < time.time() - _FORGOTTEN
            if forgotten or (full and taken > goal and name.endswith(self.suffix)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                taken -= size
        return self.total - taken


# ---- the folder ----
@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[int]:
    """Open a folder; permanent faults raise DeviceError, others OSError."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        # A link could lead to a folder that others can write to.
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _refusal(path, "it is a link or a file") from None
        raise
    try:
        # Check the open descriptor, and the folder above it, by which it could be renamed.
        found, above = os.fstat(folder), os.stat(path.parent)
        if found.st_uid != os.getuid():
            raise _refusal(path, f"it belongs to user {found.st_uid}")
        if found.st_mode & 0o077:
            raise _refusal(path, f"its mode is {stat.S_IMODE(found.st_mode):o} (chmod 700)")
        if above.st_uid not in (0, os.getuid()):
            raise _refusal(path, f"the folder it lies in belongs to user {above.st_uid}")
        # The sticky bit (as of /tmp) lets only the owner rename entries of a folder.
        if above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX:
            raise _refusal(path, "others can rename it (chmod go-w the folder it lies in)")
        yield folder
    finally:
        os.close(folder)


def _refusal(path: pathlib.Path, reason: str) -> DeviceError:
    return DeviceError(
        f"{path} holds compiled code that will be executed, so it must be a folder of your own, "
        f"closed to others: {reason}. Repair or remove it, choose another with GPUARRAY_CACHE_DIR, "
        "or keep nothing with GPUARRAY_ENABLE_COMPILATION_CACHE=0."
    )


def _make_folders(path: pathlib.Path) -> None:
    """Create a folder, and missing parents, each closed to other users."""
    if not path.parent.exists():
        _make_folders(path.parent)
    # Another process may have made it meanwhile.
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)


#: Temporary folder of each process for entries it cannot store; a forked child has its own.
_passing: dict[int, str] = {}


def _passing_folder() -> pathlib.Path:
    """Return the temporary folder of this process, made on first use and removed at its end."""
    process = os.getpid()
    if process not in _passing:
        _passing[process] = made = tempfile.mkdtemp(prefix="gpuarray-")
        atexit.register(_remove_passing, process, made)
    return pathlib.Path(_passing[process])


def _remove_passing(process: int, path: str) -> None:
    # A forked child inherits the registration, but not the right to remove the folder.
    if os.getpid() == process:
        _passing.pop(process, None)
        shutil.rmtree(path, ignore_errors=True)


def _name(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


def _packed(code: bytes, note: bytes, key: bytes) -> bytes:
    """Return the bytes of a file: code, note, key, their sizes, and a digest of all of it."""
    data = b"".join([code, note, key, _SIZES.pack(_MAGIC, len(code), len(note), len(key))])
    return data + hashlib.sha256(data).digest()


def _unpacked(data: bytes, key: bytes) -> tuple[bytes, bytes] | None:
    """Return code and note if the data is complete and was made for this key, else None."""
    body = data[:-_DIGEST]
    if len(body) < _SIZES.size or hashlib.sha256(body).digest() != data[-_DIGEST:]:
        return None
    magic, code, note, length = _SIZES.unpack_from(body, len(body) - _SIZES.size)
    # The sizes come last, before the digest: the code must be at the beginning.
    if magic != _MAGIC or code + note + length + _SIZES.size != len(body):
        return None
    if body[code + note : code + note + length] != key:
        return None
    return body[:code], body[code : code + note]
