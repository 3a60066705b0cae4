"""The binary format as CNTK 2.7 reads and writes it."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from harness.trace import Sample, Sequence

_MAGIC = 0x636E746B5F62696E


class BinaryStream(NamedTuple):
    """A stream in the header."""

    name: str
    is_sparse: bool
    dtype: np.dtype[np.generic]
    dim: int


class _Bytes:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, form: str) -> int:
        """Returns the next number, of a `struct` format."""
        value: int = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def array(self, dtype: np.dtype[np.generic], count: int) -> npt.NDArray[np.generic]:
        """Returns the next numbers."""
        made = np.frombuffer(self.data, dtype, count, self.at)
        self.at += made.nbytes
        return made


def version(data: bytes) -> int:
    """Returns the version of a file."""
    magic, number = struct.unpack_from("<QI", data)
    if magic != _MAGIC:
        raise ValueError("no magic number")
    return int(number)


def _sequence(source: _Bytes, stream: BinaryStream) -> Sequence:
    samples = source.take("I")
    if not stream.is_sparse:
        values = source.array(stream.dtype, samples * stream.dim).reshape(samples, stream.dim)
        return [Sample(row) for row in values]
    count = source.take("i")
    values = source.array(stream.dtype, count)
    indices = source.array(np.dtype("<i4"), count).tolist()
    made, at = [], 0
    for entries in source.array(np.dtype("<i4"), samples).tolist():
        made.append(Sample(values[at : at + entries], tuple(indices[at : at + entries])))
        at += entries
    if at != count:
        raise ValueError("the entries of samples do not add up")
    return made


def read(data: bytes) -> dict[str, list[Sequence]]:
    """Returns the sequences of a file of version 1, by stream."""
    if version(data) != 1:
        raise ValueError("another version")
    header = _Bytes(data, struct.unpack_from("<q", data, len(data) - 8)[0])
    if header.take("Q") != _MAGIC:
        raise ValueError("no magic number before the header")
    chunks, streams = header.take("I"), []
    for _ in range(header.take("I")):
        is_sparse = header.take("B") == 1
        size = header.take("I")
        name = header.data[header.at : header.at + size].decode()
        header.at += size
        dtype = np.dtype("<f8" if header.take("B") else "<f4")
        streams.append(BinaryStream(name, is_sparse, dtype, header.take("I")))
    made: dict[str, list[Sequence]] = {stream.name: [] for stream in streams}
    for _ in range(chunks):
        source = _Bytes(data, header.take("q"))
        sequences, samples = header.take("I"), header.take("I")
        lengths = source.array(np.dtype("<u4"), sequences).tolist()
        if sum(lengths) != samples:
            raise ValueError("the samples of a chunk do not add up")
        for stream in streams:
            made[stream.name] += [_sequence(source, stream) for _ in range(sequences)]
        for number, length in enumerate(lengths, len(made[streams[0].name]) - sequences):
            if length != max(len(made[stream.name][number]) for stream in streams):
                raise ValueError("a sequence has another length than its streams")
    return made
