"""Users' deserializers: Python classes that deliver the data chunk by chunk.

The library calls them on a thread of its own, one call at a time. Arrays are read where they lie, and kept until the
library does not need the chunk any more; they must not be changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

import numpy as np

from ._configuration import AnyTransform
from ._explain import Text, explained, unknown, whole
from ._keys import checked
from ._minibatch import StreamInformation
from ._rules import FLAG, Within
from ._types import ELEMENTS, Array, CsrLike, dtype_of, element_of


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

    def stream_infos(self) -> Sequence[StreamInformation]:
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


def _dense(array: Any, info: StreamInformation) -> Any:
    """An array of samples, which need not be contiguous."""
    element = dtype_of(info.dtype) if isinstance(info.dtype, str) else np.dtype(info.dtype)
    if array.dtype != element:
        raise TypeError(f"Only {element} numbers are supported here, not {array.dtype}.")
    if np.ma.is_masked(array):
        raise ValueError("Some values of the array are masked: fill them.")
    if array.ndim != len(info.shape) + 1:
        raise ValueError("Dense data supported only as single sample per row.")
    if array.shape[1:] != tuple(info.shape):
        raise ValueError(f"A sample has the shape {array.shape[1:]}, the stream {tuple(info.shape)}.")
    return array


def _sparse(matrix: Any, info: StreamInformation) -> tuple[Any, Any, Any]:
    """Values, indices and offsets of a CSR matrix, one row a sample."""
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
    indices, offsets = (
        np.ascontiguousarray(part, part.dtype if part.dtype in (np.int32, np.int64) else np.int64)
        for part in (matrix.indices, matrix.indptr)
    )
    if len(offsets) != matrix.shape[0] + 1:
        raise ValueError(
            f"The matrix has {matrix.shape[0]} rows, but {len(offsets)} entries in indptr instead of one more."
        )
    return data, indices, offsets


def _sequence(item: Any, info: StreamInformation) -> Any:
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


def _name(name: Any) -> str:
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"Expected a string, '{type(name).__name__}' was provided.")
    return name.decode() if isinstance(name, bytes) else name


def _part(value: Any, info: StreamInformation) -> tuple[Any, Any]:
    """A stream's part of a chunk: a list of arrays, or one array and perhaps the lengths of its sequences."""
    lengths = None
    if isinstance(value, SequenceArray):
        value, lengths = value.values, _counts(value.lengths, "lengths", np.uint32)
        if lengths.ndim != 1:
            raise ValueError(f"lengths have {lengths.ndim} dimensions instead of 1.")
    if isinstance(value, list):
        return [_sequence(item, info) for item in value], None
    if _is_csr(value) if info.is_sparse else isinstance(value, np.ndarray):
        return _sparse(value, info) if info.is_sparse else _dense(value, info), lengths
    if _is_csr(value) or isinstance(value, np.ndarray):
        raise TypeError(f"Unexpected data type '{type(value).__name__}' for a {info.storage_format} stream.")
    raise TypeError(f"Unexpected type {type(value).__name__}, only list, numpy or csr_matrix are expected.")


# The extension module calls the functions below.


def described(user: UserDeserializer) -> tuple[int, Streams, list[tuple[str, bool, str, list[int], bool]], bool, bool]:
    """The number of chunks; the streams, also in plain types; whether it is thread safe, and composable."""
    chunks, streams = user.describe()
    plain = [_plain(info) for info in streams.values()]
    return chunks, streams, plain, bool(user.thread_safe), isinstance(user, ComposableUserDeserializer)


def _plain(info: StreamInformation) -> tuple[str, bool, str, list[int], bool]:
    """Name, sparse, type of values, shape (first dimension fastest), defines the size."""
    if info.storage_format not in ("dense", "sparse"):
        raise ValueError(f"The storage format of '{info.name}' is '{info.storage_format}', not dense or sparse.")
    element = element_of(info.dtype)
    if element is None:
        raise ValueError(f"The stream '{info.name}' has the dtype {info.dtype}, not one of {', '.join(ELEMENTS)}.")
    if any(dimension < 0 for dimension in info.shape):
        raise ValueError(f"The shape {info.shape} of '{info.name}' is not known completely.")
    if info.is_binary:
        raise ValueError(f"The stream '{info.name}' is binary, which streams of users cannot be.")
    dimensions = [whole(f"A dimension of '{info.name}'", dimension) for dimension in reversed(info.shape)]
    return info.name, info.is_sparse, element, dimensions, bool(info.defines_mb_size)


def loaded(user: UserDeserializer, chunk: int, streams: Streams) -> tuple[tuple[Any, Any], ...]:
    """The data of a chunk for each stream: see :func:`_part`."""
    data = user.get_chunk(chunk)
    if not isinstance(data, Mapping):
        raise TypeError("The chunk should be a dictionary of a stream name into a list of sequences")
    by_name = {_name(name): value for name, value in data.items()}
    for name in by_name:
        if name not in streams:
            raise ValueError(f"Stream with name '{name}' does not exist")
    parts = []
    for name, info in streams.items():
        if name not in by_name:
            raise ValueError(f"The stream '{name}' is missing in the chunk.")
        try:
            parts.append(_part(by_name[name], info))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"Stream '{name}': {error}") from error
    return tuple(parts)


def listed(user: ComposableUserDeserializer, chunk: int) -> tuple[int, Any, Any]:
    """The number of a chunk's sequences, their lengths, and their keys: see :func:`._keys.checked`."""
    sequences = user.get_sequences(chunk)
    count = whole("The number of sequences", sequences.count)
    lengths = sequences.lengths
    if lengths is not None:
        lengths = _counts(lengths, "lengths", np.uint32)
        if lengths.shape != (count,):
            raise ValueError(f"There are {lengths.size} lengths for {count} sequences.")
    return count, lengths, checked(sequences.keys, count)
