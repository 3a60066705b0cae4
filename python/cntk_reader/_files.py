"""Data files that are not in the file system, and compressed ones.

A file system is mounted for a scheme; from then on every path of a data file that begins with this scheme is opened by it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import itertools
from collections.abc import Callable
from ctypes import c_void_p
from typing import Any

from . import _library as lib
from ._callbacks import FAILED, report, run, run_quietly
from ._convert import Path, Progress, convert
from ._explain import explained, whole
from ._rules import FUNCTION, PATH, TEXT, Maybe, Whole, Within
from ._types import FsspecLike

_mount = lib.checked("file_system_mount")

_AGAIN = 2
_TO_ZSTD = 11
_PASSING = (errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT)


class RemoteFile:
    """Base class of a file of a :class:`FileSystem`. Its methods are called by any thread, several at once."""

    def size(self) -> int:
        """Bytes of the file."""
        raise NotImplementedError

    def read_at(self, offset: int, count: int) -> bytes:
        """At most ``count`` bytes from ``offset`` on, at least one; b"" only at the file's end."""
        raise NotImplementedError

    def identity(self) -> bytes:
        """Bytes that are equal as long as the file's content is, such as an ETag or a version.

        If it is empty, changes of the file are noticed by its size alone.
        """
        return b""

    def close(self) -> None:
        """The file is not needed any more."""


class FileSystem:
    """Base class of file systems of your own. Its methods are called by any thread, several at once."""

    def open(self, path: str) -> RemoteFile:
        """Opens a file for reading; ``path`` is the whole path, with its scheme."""
        raise NotImplementedError

    def may_pass(self, error: BaseException) -> bool:
        """Whether the call that raised ``error`` may succeed a little later.

        It is called again then, at most four times within four seconds.
        """
        if isinstance(error, (TimeoutError, ConnectionError, BlockingIOError)):
            return True
        return isinstance(error, OSError) and error.errno in _PASSING


class _FsspecFile(RemoteFile):
    def __init__(self, system: Any, path: str) -> None:
        self._system, self._path = system, path
        self._size = int(system.info(path)["size"])

    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, count: int) -> bytes:
        end = min(offset + count, self._size)
        return bytes(self._system.cat_file(self._path, start=offset, end=end)) if offset < end else b""

    def identity(self) -> bytes:
        return str(self._system.ukey(self._path)).encode()


class _Fsspec(FileSystem):
    """A file system of fsspec (``fsspec.filesystem("s3")``): object stores, HTTP, archives, memory."""

    #: Exceptions of asyncio, aiohttp and fsspec about connections, by name: none of the three need be installed.
    _PASSING = {"TimeoutError", "FSTimeoutError", "ClientConnectionError", "ClientPayloadError"}

    def __init__(self, system: Any) -> None:
        self._system = system

    def may_pass(self, error: BaseException) -> bool:
        return super().may_pass(error) or any(base.__name__ in self._PASSING for base in type(error).__mro__)

    def open(self, path: str) -> RemoteFile:
        scheme, rest = path.split("://", 1)
        protocols = self._system.protocol
        own = (protocols,) if isinstance(protocols, str) else tuple(protocols)
        # It may be mounted under another name than its own.
        return _FsspecFile(self._system, self._system._strip_protocol(path if scheme in own else rest))


class _Bridge:
    """A file system as the library's table of callbacks."""

    def __init__(self, user: FileSystem) -> None:
        self._user = user
        self._numbers = itertools.count(1)
        self._files: dict[int, RemoteFile] = {}
        self.table = lib.FileSystemTable(
            open_file=lib.OpenFile(self._open),
            get_size=lib.GetFileSize(self._size),
            read_at=lib.ReadFile(self._read),
            get_identity=lib.GetFileIdentity(self._identity),
            close_file=lib.CloseFile(self._close),
            finalizer=_finalizer,
        )

    def _guarded(self, what: str, failure: c_void_p, work: Callable[[], None]) -> int:
        def failed(error: BaseException) -> int:
            lib.note_interrupt(error)
            report(failure, what, self._user, error)
            return _AGAIN if self._user.may_pass(error) else FAILED

        return run(failure, work, failed)

    def _open(self, _: Any, path: int, length: int, place: Any, failure: c_void_p) -> int:
        def work() -> None:
            place[0] = None
            file = self._user.open(ctypes.string_at(path, length).decode())
            number = next(self._numbers)
            self._files[number] = file
            place[0] = number

        return self._guarded("open", failure, work)

    def _size(self, _: Any, file: int, place: Any, failure: c_void_p) -> int:
        def work() -> None:
            place[0] = 0
            place[0] = whole("The size of a file", self._files[file].size())

        return self._guarded("size", failure, work)

    def _read(self, _: Any, file: int, offset: int, buffer: int, capacity: int, count: Any, failure: c_void_p) -> int:
        def work() -> None:
            count[0] = 0
            data = self._files[file].read_at(offset, capacity)
            if not isinstance(data, (bytes, bytearray, memoryview)):
                raise TypeError(f"read_at gives bytes, and {type(data).__name__} is none.")
            if len(data) > capacity:
                raise ValueError(f"read_at gives {len(data)} bytes, but at most {capacity} were wanted.")
            ctypes.memmove(buffer, bytes(data), len(data))
            count[0] = len(data)

        return self._guarded("read_at", failure, work)

    def _identity(self, _: Any, file: int, place: int, capacity: int, length: Any, failure: c_void_p) -> int:
        def work() -> None:
            length[0] = 0
            identity = bytes(self._files[file].identity())
            if len(identity) > capacity:
                identity = hashlib.sha256(identity).digest()
            ctypes.memmove(place, identity, len(identity))
            length[0] = len(identity)

        return self._guarded("identity", failure, work)

    def _close(self, _: Any, number: int) -> None:
        def work() -> None:
            file = self._files.pop(number, None)
            if file is not None:
                file.close()

        run_quietly(work)


_numbers = itertools.count(1)
# Tables whose callbacks the library may still call.
_mounted: dict[int, _Bridge] = {}
_finalizer = lib.Finalizer(lambda number: _mounted.pop(number, None) and None)


def is_mounted() -> bool:
    """Whether any file system of Python is in use."""
    return bool(_mounted)


@explained('mount("s3", fsspec.filesystem("s3"))', scheme=TEXT, file_system=Within("in mount itself"))
def mount(scheme: str, file_system: FileSystem | FsspecLike) -> None:
    """Has ``file_system`` open all data files whose paths begin with ``scheme://``, from now on, in the whole process.

    ``file_system`` is a :class:`FileSystem`, or a file system of fsspec: ``mount("s3", fsspec.filesystem("s3"))``. It takes the
    place of an earlier one for this scheme; files that are open stay with theirs.
    """
    if not isinstance(file_system, FileSystem):
        if not hasattr(file_system, "cat_file"):
            raise TypeError(f"A FileSystem or a file system of fsspec was expected, not {type(file_system).__name__}.")
        file_system = _Fsspec(file_system)
    bridge = _Bridge(file_system)
    number = next(_numbers)
    bridge.table.userdata = number
    _mounted[number] = bridge
    encoded = scheme.encode()
    try:
        _mount(encoded, len(encoded), ctypes.byref(bridge.table))
    except lib.ReaderError:
        del _mounted[number]
        raise


@explained('unmount("s3")', scheme=TEXT)
def unmount(scheme: str) -> None:
    """Ends what :func:`mount` began. Files that are open stay usable."""
    encoded = scheme.encode()
    _mount(encoded, len(encoded), None)


@explained(
    'compress("train.ctf", "train.ctf.zst")', input=PATH, output=PATH, progress=Maybe(FUNCTION), level=Whole(1, 22)
)
def compress(input: Path, output: Path, progress: Progress = None, level: int = 9) -> None:
    """Compresses any file by zstd, in frames that are unpacked one by one.

    A reader reads ``output`` like the plain file if its name ends in ".zst". ``progress`` gets frames in place of sequences.
    ``level`` is zstd's, from 1, the fastest, to 22, the smallest.
    """
    convert(_TO_ZSTD, input, output, progress, compression_level=level)
