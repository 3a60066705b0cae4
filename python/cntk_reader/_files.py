"""Data files outside the local file system, and compressed ones.

A file system is mounted for a scheme. It then opens every data file whose path begins with the
scheme.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from . import _native
from ._convert import Path, Progress
from ._explain import explained
from ._rules import FUNCTION, PATH, TEXT, Maybe, Whole, Within
from ._types import FsspecLike

_PASSING = (errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT)


class RemoteFile:
    """Base class of a file of a :class:`FileSystem`. Several threads may call its methods
    concurrently."""

    def size(self) -> int:
        """Returns the size of the file in bytes."""
        raise NotImplementedError

    def read_at(self, offset: int, count: int) -> bytes:
        """Returns 1 to ``count`` bytes from ``offset`` on; b"" only at the end of the file."""
        raise NotImplementedError

    def identity(self) -> bytes:
        """Returns bytes that change with the file's content, such as an ETag or a version.

        If they are empty, changes of the file are detected only by its size.
        """
        return b""

    def close(self) -> None:
        """Closes the file, which is no longer needed."""


class FileSystem:
    """Base class of custom file systems. Several threads may call its methods concurrently."""

    def open(self, path: str) -> RemoteFile:
        """Opens a file for reading. ``path`` is the whole path, including the scheme."""
        raise NotImplementedError

    def may_pass(self, error: BaseException) -> bool:
        """Returns whether the call that raised ``error`` may succeed later.

        It is then retried, at most four times within four seconds.
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
    """A file system of fsspec (``fsspec.filesystem("s3")``): object stores, HTTP, archives,
    memory."""

    #: Connection errors of asyncio, aiohttp and fsspec, by name: aiohttp and fsspec may be absent.
    _PASSING = {"TimeoutError", "FSTimeoutError", "ClientConnectionError", "ClientPayloadError"}

    def __init__(self, system: Any) -> None:
        self._system = system

    def may_pass(self, error: BaseException) -> bool:
        return super().may_pass(error) or any(base.__name__ in self._PASSING for base in type(error).__mro__)

    def open(self, path: str) -> RemoteFile:
        scheme, rest = path.split("://", 1)
        protocols = self._system.protocol
        own = (protocols,) if isinstance(protocols, str) else tuple(protocols)
        # The scheme under which it is mounted may differ from its own.
        return _FsspecFile(self._system, self._system._strip_protocol(path if scheme in own else rest))


@explained('mount("s3", fsspec.filesystem("s3"))', scheme=TEXT, file_system=Within("in mount itself"))
def mount(scheme: str, file_system: FileSystem | FsspecLike) -> None:
    """Mounts ``file_system`` in this process for all data files with paths ``scheme://...``.

    ``file_system`` is a :class:`FileSystem`, or a file system of fsspec:
    ``mount("s3", fsspec.filesystem("s3"))``. It replaces an earlier one for this scheme; open files
    keep theirs.
    """
    if not isinstance(file_system, FileSystem):
        if not hasattr(file_system, "cat_file"):
            raise TypeError(f"A FileSystem or a file system of fsspec was expected, not {type(file_system).__name__}.")
        file_system = _Fsspec(file_system)
    _native.mount(scheme, file_system)


@explained('unmount("s3")', scheme=TEXT)
def unmount(scheme: str) -> None:
    """Unmounts the file system of a scheme. Open files stay usable."""
    _native.unmount(scheme)


@explained(
    'compress("train.ctf", "train.ctf.zst")', input=PATH, output=PATH, progress=Maybe(FUNCTION), level=Whole(1, 22)
)
def compress(input: Path, output: Path, progress: Progress = None, level: int = 9) -> None:
    """Compresses any file with zstd, in frames that can be decompressed one by one.

    A reader reads ``output`` like the original file if its name ends in ".zst". ``progress`` gets
    frames instead of sequences. ``level`` is zstd's, from 1, the fastest, to 22, the smallest.
    """
    _native.compress(os.fspath(input), os.fspath(output), progress, level)
