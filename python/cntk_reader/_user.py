"""Users' deserializers: Python classes that deliver the data chunk by chunk.

The library calls them on a thread of its own, one call at a time. Arrays are read where they lie, and kept until the
library does not need the chunk any more; they must not be changed meanwhile.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, NamedTuple, Union, cast

import numpy as np

from . import _library as lib
from ._callbacks import Failures, run_quietly
from ._configuration import AnyTransform
from ._explain import Text, explained, unknown, whole
from ._keys import checked
from ._minibatch import StreamInformation
from ._rules import FLAG, Within
from ._types import Array, CsrLike

_ARRAY = cast("np.dtype[np.void]", np.dtype(lib.UserArray))
_SAMPLES, _SEQUENCES, _ARRAYS = 0, 1, 2  # of cntk_reader_grouping
_ELEMENTS = {np.dtype(np.float32): 1, np.dtype(np.float64): 2}


class Streams(dict[str, StreamInformation]):
    """Streams by name, also as attributes: ``streams.features``."""

    def __getattr__(self, name: str) -> StreamInformation:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(unknown("stream", name, self)) from None

    def __missing__(self, name: str) -> StreamInformation:
        raise KeyError(Text(unknown("stream", name, self)))


class UserDeserializer:
    """Base class of users' deserializers, as CNTK's class of that name is.

    The sequences of a chunk are known when it was loaded, so every worker has an order of its own, windows do not
    overlap, and :meth:`MinibatchSource.get_checkpoint_state` has CNTK's keys for such data.
    """

    #: Set it to True if several threads may be inside :meth:`get_chunk` at once.
    thread_safe = False
    #: Set it to True if keys are texts other than numbers. A source then has text keys in all of its deserializers.
    has_text_keys = False
    #: Transforms of dense streams by name, if samples are images (row, column, channel): ``{"features": [Scale(8, 8, 3)]}``.
    transforms: Mapping[str, Sequence[AnyTransform]] = {}

    _described: tuple[int, Streams] | None = None

    def stream_infos(self) -> list[StreamInformation]:
        """The streams, at least one; ``stream_id`` is the place in the list. Called once."""
        raise NotImplementedError

    def num_chunks(self) -> int:
        """The number of chunks, at least 1. Called once."""
        raise NotImplementedError

    def get_chunk(self, chunk_id: int) -> Mapping[str, ChunkValue]:
        """The data of a chunk: for each stream, by name,

        * an array (samples, *shape) or a CSR matrix (samples, values): each sample is a sequence, or
        * one of the two with the samples of all sequences, and their lengths: a :class:`SequenceArray`, or
        * a list of sequences, each an array (samples, *shape), an array of the sample's shape, or a CSR matrix.

        Values have the stream's dtype. All streams have the same number of sequences. May be called again for the same
        chunk, and has to give the same data then.
        """
        raise NotImplementedError

    def describe(self) -> tuple[int, Streams]:
        """Number of chunks and streams, asked once."""
        if self._described is None:
            chunks = whole("The number of chunks", self.num_chunks(), 0, 2**32 - 1)
            infos = list(self.stream_infos())
            for flag in ("thread_safe", "has_text_keys"):
                FLAG(f"{type(self).__name__}.{flag}", getattr(self, flag))
            for place, info in enumerate(infos):
                if not isinstance(info, StreamInformation):
                    raise TypeError(f"stream_infos() gives {info!r}, which is no StreamInformation.")
                if info.stream_id != place:
                    raise ValueError(
                        f"The stream '{info.name}' has the id {info.stream_id}, but its place in the list is {place}."
                    )
            self._described = chunks, Streams({info.name: info for info in infos})
            names = [info.name for info in infos]
            twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
            if twice is not None:
                self._described = None
                raise ValueError(f"Two streams have the name '{twice}': give each a name of its own.")
            for name in self.transforms:
                if name not in names:
                    raise ValueError(
                        f"'transforms' are given for the stream {name!r}. {unknown('stream', name, names)}"
                    )
        return self._described

    @property
    def streams(self) -> Streams:
        """The streams by name."""
        return self.describe()[1]


_IN_BRIDGE = Within("when the library has asked for it")


@explained(
    "SequenceList(len(keys), lengths, keys)",
    count=_IN_BRIDGE,
    lengths=_IN_BRIDGE,
    keys=_IN_BRIDGE,
)
@dataclass(frozen=True)
class SequenceList:
    """The sequences of a chunk: their number, the length of each in samples, and the key of each, a number or a text.

    Without lengths all are one sample long; without keys a key is the running number in the whole data.

    * ``count``: how many there are
    * ``lengths``: samples of each
    * ``keys``: of each. Different texts are different keys, and nulls are refused
    """

    count: int
    lengths: Sequence[int] | Array | None = None
    keys: Sequence[int] | Sequence[str] | Array | None = None


class Csr(NamedTuple):
    """A CSR matrix of samples, without SciPy: row r has ``data`` and ``indices`` from ``indptr[r]`` to ``indptr[r + 1]``."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]
    format: str = "csr"


@explained("SequenceArray(values, lengths)", values=_IN_BRIDGE, lengths=_IN_BRIDGE)
class SequenceArray(NamedTuple):
    """A stream's part of a chunk as one array, or CSR matrix, of all samples, one sequence after the other.

    * ``values``: (samples, *shape of a sample), or a CSR matrix (samples, values)
    * ``lengths``: samples of each sequence
    """

    values: Array | CsrLike
    lengths: Sequence[int] | Array


#: A stream's part of a chunk: see :meth:`UserDeserializer.get_chunk`.
ChunkValue = Union[Array, CsrLike, SequenceArray, list[Array], list[CsrLike]]


class ComposableUserDeserializer(UserDeserializer):
    """A deserializer that also lists the sequences of its chunks before they are loaded.

    It has the full randomizer and CNTK's checkpoint key of files, and may be joined with other deserializers by key.
    """

    def get_sequences(self, chunk_id: int) -> SequenceList:
        """The sequences of a chunk. Called once for each chunk, when the source is made."""
        raise NotImplementedError


def _is_csr(value: Any) -> bool:
    return getattr(value, "format", None) == "csr" and hasattr(value, "indptr")


def _dense(array: Any, info: StreamInformation) -> tuple[dict[str, Any], list[Any]]:
    """An array of samples, which need not be contiguous."""
    element = np.dtype(info.dtype)
    if array.dtype != element:
        raise TypeError(f"Only {element} numbers are supported here, not {array.dtype}.")
    if np.ma.is_masked(array):
        raise ValueError("Some values of the array are masked: fill them.")
    if not array.flags.aligned:
        array = array.copy()
    if array.ndim != len(info.shape) + 1:
        raise ValueError("Dense data supported only as single sample per row.")
    if array.shape[1:] != tuple(info.shape):
        raise ValueError(f"A sample has the shape {array.shape[1:]}, the stream {tuple(info.shape)}.")
    values = {"samples": len(array), "element": _ELEMENTS[element], "values": array.__array_interface__["data"][0]}
    if array.flags.c_contiguous:
        return {**values, "values_size": array.nbytes}, [array]
    reaches = [(dimension - 1) * stride for dimension, stride in zip(array.shape, array.strides)]
    low = sum(min(reach, 0) for reach in reaches)
    high = sum(max(reach, 0) for reach in reaches) + array.itemsize
    strides = np.array(array.strides[1:][::-1] + array.strides[:1], np.intp)
    values["values"] += low
    values.update(values_size=high - low, byte_offset=-low, strides=strides.ctypes.data, stride_count=len(strides))
    return values, [array, strides]


def _sparse(matrix: Any, info: StreamInformation) -> tuple[dict[str, Any], list[Any]]:
    """A CSR matrix, one row a sample."""
    element = np.dtype(info.dtype)
    if matrix.data.dtype != element:
        raise TypeError(f"Only {element} numbers are supported here, not {matrix.data.dtype}.")
    if matrix.shape[1] != info.sample_size:
        raise ValueError(f"The matrix is {matrix.shape[1]} wide, a sample has {info.sample_size} values.")
    for name in ("indices", "indptr"):
        if getattr(matrix, name).dtype.kind not in "iu":
            raise TypeError(
                f"'{name}' of the matrix has values of the type {getattr(matrix, name).dtype}, not integers."
            )
    data = np.ascontiguousarray(matrix.data)
    integers = [
        np.ascontiguousarray(part, part.dtype if part.dtype in (np.int32, np.int64) else np.int64)
        for part in (matrix.indices, matrix.indptr)
    ]
    indices, offsets = integers
    if len(offsets) != matrix.shape[0] + 1:
        raise ValueError(
            f"The matrix has {matrix.shape[0]} rows, but {len(offsets)} entries in indptr instead of one more."
        )
    values = {
        "values": data.__array_interface__["data"][0],
        "values_size": data.nbytes,
        "samples": matrix.shape[0],
        "indices": indices.__array_interface__["data"][0],
        "index_count": len(indices),
        "offsets": offsets.__array_interface__["data"][0],
        "index_size": indices.itemsize,
        "offset_size": offsets.itemsize,
        "element": _ELEMENTS[element],
    }
    return values, [data, indices, offsets]


def _sequence(item: Any, info: StreamInformation) -> tuple[dict[str, Any], list[Any]]:
    """One sequence of a list."""
    if info.is_sparse:
        if not _is_csr(item):
            raise TypeError("Expecting sparse data to be represented as a csr_matrix.")
        return _sparse(item, info)
    if not isinstance(item, np.ndarray):
        raise TypeError("Expecting dense data to be represented as a numpy array.")
    return _dense(item[np.newaxis] if item.ndim == len(info.shape) else item, info)


def _counts(values: Any, what: str, dtype: Any) -> Any:
    """Whole numbers from 0 as an array of this type; what does not fit would be cut off without a word."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(array.shape, dtype)
    if array.dtype.kind not in "iu" or np.ma.is_masked(values):
        raise TypeError(
            f"{what} have to be whole numbers, not {array.dtype}{' with a mask' * np.ma.is_masked(values)}."
        )
    most = np.iinfo(dtype).max
    for extreme in (int(array.min()), int(array.max())):
        if not 0 <= extreme <= most:
            raise ValueError(f"{what} go from 0 to {most}, and one of them is {extreme}.")
    return np.ascontiguousarray(array, dtype)


class _ChunkMemory:
    """A chunk as the library's structs, with all the memory that they refer to."""

    def __init__(self, data: Any, streams: Streams) -> None:
        if not isinstance(data, Mapping):
            raise TypeError("The chunk should be a dictionary of a stream name into a list of sequences")
        by_name = {self._name(name): value for name, value in data.items()}
        for name in by_name:
            if name not in streams:
                raise ValueError(f"Stream with name '{name}' does not exist")
        self.keep: list[Any] = []
        self.streams = (lib.UserStreamData * len(streams))()
        for place, (name, info) in enumerate(streams.items()):
            if name not in by_name:
                raise ValueError(f"The stream '{name}' is missing in the chunk.")
            try:
                self._add(self.streams[place], by_name[name], info)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"Stream '{name}': {error}") from error

    @staticmethod
    def _name(name: Any) -> str:
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"Expected a string, '{type(name).__name__}' was provided.")
        return name.decode() if isinstance(name, bytes) else name

    def _add(self, part: lib.UserStreamData, value: Any, info: StreamInformation) -> None:
        lengths = None
        if isinstance(value, SequenceArray):
            value, lengths = value.values, _counts(value.lengths, "lengths", np.uint32)
            part.lengths, part.length_count = lengths.ctypes.data, len(lengths)
        if isinstance(value, list):
            part.grouping = _ARRAYS
            described = [_sequence(item, info) for item in value]
        elif _is_csr(value) if info.is_sparse else isinstance(value, np.ndarray):
            part.grouping = _SAMPLES if lengths is None else _SEQUENCES
            described = [_sparse(value, info) if info.is_sparse else _dense(value, info)]
        elif _is_csr(value) or isinstance(value, np.ndarray):
            raise TypeError(f"Unexpected data type '{type(value).__name__}' for a {info.storage_format} stream.")
        else:
            raise TypeError(f"Unexpected type {type(value).__name__}, only list, numpy or csr_matrix are expected.")
        table = np.zeros(len(described), _ARRAY)
        for field in {key for values, _ in described for key in values}:
            table[field] = [values.get(field, 0) for values, _ in described]
        self.keep.append((table, lengths, [kept for _, kept in described]))
        part.arrays = table.ctypes.data
        part.array_count = len(table)


def _drop(held: dict[int, _ChunkMemory], handle: int) -> None:
    held.pop(handle, None)


class Bridge:
    """A user's deserializer as the library's table of callbacks. It has to live until the reader is freed."""

    def __init__(self, user: UserDeserializer, name: str) -> None:
        chunks, streams = user.describe()
        self._user = user
        self._streams = streams
        self._held: dict[int, _ChunkMemory] = {}
        self._numbers = itertools.count(1)
        self._listed: Any = None
        self._failures = Failures(user)
        self.cause = self._failures.cause
        infos = (lib.UserStream * len(streams))()
        self._shapes: list[Any] = []
        for place, info in zip(infos, streams.values()):
            self._fill(place, info)
        is_composable = isinstance(user, ComposableUserDeserializer)
        encoded = name.encode()
        self.table = lib.UserTable(
            name=encoded,
            name_length=len(encoded),
            streams=infos,
            stream_count=len(streams),
            chunk_count=chunks,
            thread_safe=bool(user.thread_safe),
            load_chunk=lib.LoadChunk(self._load),
            release_chunk=lib.ReleaseHandle(self._release),
            list_sequences=lib.ListSequences(self._list if is_composable else 0),
        )

    def _fill(self, place: lib.UserStream, info: StreamInformation) -> None:
        if info.storage_format not in ("dense", "sparse"):
            raise ValueError(f"The storage format of '{info.name}' is '{info.storage_format}', not dense or sparse.")
        element = _ELEMENTS.get(np.dtype(info.dtype))
        if element is None:
            raise ValueError(f"The stream '{info.name}' has the dtype {np.dtype(info.dtype)}, not float32 or float64.")
        if any(dimension < 0 for dimension in info.shape):
            raise ValueError(f"The shape {info.shape} of '{info.name}' is not known completely.")
        if info.is_binary:
            raise ValueError(f"The stream '{info.name}' is binary, which streams of users cannot be.")
        dimensions = [whole(f"A dimension of '{info.name}'", dimension) for dimension in reversed(info.shape)]
        shape = (c_size_t * len(dimensions))(*dimensions)
        self._shapes.append(shape)
        place.name = info.name.encode()
        place.name_length = len(info.name.encode())
        place.shape = shape
        place.shape_rank = len(info.shape)
        place.storage = int(info.is_sparse)
        place.element = element
        place.defines_mb_size = bool(info.defines_mb_size)

    def _load(self, _: Any, chunk: int, place: Any, failure: c_void_p) -> int:
        def load() -> None:
            data = place.contents
            data.handle, data.streams, data.stream_count = None, None, 0
            memory = _ChunkMemory(self._user.get_chunk(chunk), self._streams)
            handle = next(self._numbers)
            data.handle = handle
            data.streams = ctypes.addressof(memory.streams)
            data.stream_count = len(memory.streams)
            self._held[handle] = memory

        return self._failures.guard(f"get_chunk({chunk})", failure, load, chunk)

    def _release(self, _: Any, handle: int) -> None:
        run_quietly(lambda: _drop(self._held, handle))

    def _list(self, _: Any, chunk: int, place: Any, failure: c_void_p) -> int:
        def describe() -> None:
            sequences = place.contents
            sequences.count = 0
            sequences.lengths = sequences.keys = sequences.key_texts = sequences.sample_indices = None
            listed = self._user.get_sequences(chunk)  # type: ignore[attr-defined]
            sequences.count = whole("The number of sequences", listed.count)
            kept: list[Any] = []
            if listed.lengths is not None:
                kept.append(self._of_all(listed.lengths, listed.count, np.uint32, "lengths"))
                sequences.lengths = kept[-1].ctypes.data
            keys = checked(listed.keys, listed.count)
            if isinstance(keys, list):
                encoded = [key.encode() for key in keys]
                texts = (ctypes.c_char_p * listed.count)(*encoded)
                # Of texts that end with their first NUL, two could be one.
                lengths = (c_size_t * listed.count)(*map(len, encoded))
                kept += [encoded, texts, lengths]
                sequences.key_texts = ctypes.addressof(texts)
                sequences.key_text_lengths = ctypes.addressof(lengths)
            elif keys is not None:
                kept.append(keys)
                sequences.keys = keys.ctypes.data
            self._listed = kept

        return self._failures.guard(f"get_sequences({chunk})", failure, describe, chunk)

    @staticmethod
    def _of_all(values: Any, count: int, dtype: Any, what: str) -> Any:
        array = _counts(values, what, dtype)
        if array.shape != (count,):
            raise ValueError(f"There are {len(array)} {what} for {count} sequences.")
        return array
