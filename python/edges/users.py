"""Users' classes and functions that the library calls."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from cntk_reader import (
    ComposableUserDeserializer,
    FileSystem,
    RemoteFile,
    SequenceList,
    StreamInformation,
    Transform,
    UserDeserializer,
)
from cntk_reader._user import Csr, SequenceArray


class Rows(UserDeserializer):
    """Three chunks of two samples."""

    def stream_infos(self) -> list[StreamInformation]:
        return [
            StreamInformation("x", 0, "dense", np.float32, (2,)),
            StreamInformation("y", 1, "sparse", np.float32, (9,)),
        ]

    def num_chunks(self) -> int:
        return 3

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        first = 2 * chunk_id
        values = np.arange(2 * first, 2 * first + 4, dtype=np.float32).reshape(2, 2)
        indices = np.array([first, first + 1], np.int32)
        return {"x": values, "y": Csr(np.ones(2, np.float32), indices, np.arange(3), (2, 9))}


class Listed(Rows, ComposableUserDeserializer):
    """The same data, with a list of sequences."""

    def get_sequences(self, chunk_id: int) -> SequenceList:
        return SequenceList(2, keys=np.arange(2) + 2 * chunk_id)


class Lists(UserDeserializer):
    """One chunk in all forms that a chunk may have."""

    def stream_infos(self) -> list[StreamInformation]:
        return [
            StreamInformation("a", 0, "dense", np.float32, (1,)),
            StreamInformation("b", 1, "dense", np.float32, (1,)),
        ]

    def num_chunks(self) -> int:
        return 1

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        values = np.arange(4, dtype=np.float32)[:, None]
        return {"a": [values[:3], values[3:]], "b": SequenceArray(values, [3, 1])}


class Fails(Rows):
    """Fails to load the third chunk."""

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        if chunk_id == 2:
            raise LookupError("on purpose")
        return super().get_chunk(chunk_id)


class Waits(Rows):
    """Waits in the first chunk."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        self.entered.set()
        self.go_on.wait(30)
        return super().get_chunk(chunk_id)


class Memory(FileSystem):
    """Files with one line per character of their path."""

    def open(self, path: str) -> RemoteFile:
        return MemoryFile(path)


class MemoryFile(RemoteFile):
    """A file in memory."""

    def __init__(self, path: str) -> None:
        self._content = "".join(f"|x {place}\n" for place in range(len(path))).encode()

    def size(self) -> int:
        return len(self._content)

    def read_at(self, offset: int, count: int) -> bytes:
        return self._content[offset : offset + min(count, 8)]

    def identity(self) -> bytes:
        return b"1"

    def close(self) -> None:
        self._content = b""


class Negative(Transform):
    """Inverts an image."""

    def apply(self, image: Any, random: int) -> Any:
        return 255 - image


class Log:
    """Collects the lines that the library logs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, level: int, line: str) -> None:
        self.lines.append(f"{level} {line}")


class Progress:
    """Collects the figures of a conversion, or raises an exception."""

    def __init__(self, fails: bool = False) -> None:
        self.calls: list[tuple[int, ...]] = []
        self._fails = fails

    def __call__(self, *figures: int) -> bool:
        self.calls.append(figures)
        if self._fails:
            raise ZeroDivisionError("on purpose")
        return True
