"""Users' deserializers: Python classes that deliver data chunk by chunk.

The library calls them on its own thread, one call at a time. Arrays are used in place and kept
until the library no longer needs the chunk; they must not change meanwhile.
"""

from __future__ import annotations

import math
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
    """Base class of users' deserializers, like CNTK's class of that name.

    The sequences of a chunk become known only when it is loaded, so every worker has its own order,
    windows do not overlap, and :meth:`MinibatchSource.cntk_state` has CNTK's keys for such data.
    """

    #: Set it to True if several threads may call :meth:`get_chunk` concurrently.
    thread_safe = False
    #: Set it to True if keys are texts other than numbers. A source then uses text keys in all of
    #: its deserializers.
    has_text_keys = False
    #: Transforms of dense streams by name, if their samples are images (row, column, channel):
    #: ``{"features": [Scale(8, 8, 3)]}``.
    transforms: Mapping[str, Sequence[AnyTransform]] = {}

    _described: tuple[int, Streams] | None = None

    def stream_infos(self) -> Sequence[StreamInformation]:
        """Returns the streams, at least one; ``stream_id`` is the index in the list. Called
        once."""
        raise _lacks(self, "stream_infos()")

    def num_chunks(self) -> int:
        """Returns the number of chunks, at least 1. Called once."""
        raise _lacks(self, "num_chunks()")

    def get_chunk(self, chunk_id: int) -> Mapping[str, ChunkValue]:
        """Returns the data of a chunk: for each stream, by name, one of the following.

        * an array (samples, *shape) or a CSR matrix (samples, values): each sample is a sequence.
          Samples of one number may be (samples,) or (samples, 1)
        * either of them with the samples of all sequences, and their lengths: a
          :class:`SequenceArray`
        * a list of sequences, each an array (samples, *shape), an array of a sample's shape, or a
          CSR matrix

        Numbers are converted to the stream's dtype, unless they do not fit, such as fractions in a
        stream of int64. All streams have the same number of sequences. May be
        called again for the same chunk, and must then return the same data.
        """
        raise _lacks(self, "get_chunk(chunk_id)")

    def describe(self) -> tuple[int, Streams]:
        """Returns the number of chunks and the streams, and caches them."""
        if self._described is None:
            chunks = whole(f"num_chunks() of {type(self).__name__}", self.num_chunks(), 1, 2**32 - 1)
            infos = list(self.stream_infos())
            for flag in ("thread_safe", "has_text_keys"):
                FLAG(f"{type(self).__name__}.{flag}", getattr(self, flag))
            for place, info in enumerate(infos):
                if not isinstance(info, StreamInformation):
                    raise TypeError(f"stream_infos() returned {info!r}, which is not a StreamInformation.")
                if info.stream_id != place:
                    raise ValueError(
                        f"The stream '{info.name}' has the id {info.stream_id}, but its index in the list is {place}."
                    )
            self._described = chunks, Streams({info.name: info for info in infos})
            names = [info.name for info in infos]
            twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
            if twice is not None:
                self._described = None
                raise ValueError(f"Two streams have the name '{twice}': stream names must be unique.")
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
    """The sequences of a chunk: their number, lengths in samples, and keys.

    Keys are numbers or texts; different texts are different keys, and nulls are refused. Without
    lengths all sequences have one sample; without keys a key is the running number in all data.

    * ``count``: number of sequences
    * ``lengths``: samples of each sequence
    * ``keys``: key of each sequence
    """

    count: int
    lengths: Sequence[int] | Array | None = None
    keys: Sequence[int] | Sequence[str] | Array | None = None


class Csr(NamedTuple):
    """A CSR matrix of samples, without SciPy.

    Row r has ``data`` and ``indices`` from ``indptr[r]`` to ``indptr[r + 1]``.
    """

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]
    format: str = "csr"


@explained("SequenceArray(values, lengths)", values=_IN_BRIDGE, lengths=_IN_BRIDGE)
class SequenceArray(NamedTuple):
    """A stream's data in a chunk as one array or CSR matrix of all samples, sequence by sequence.

    * ``values``: (samples, *shape of a sample), or a CSR matrix (samples, values)
    * ``lengths``: samples of each sequence
    """

    values: Array | CsrLike
    lengths: Sequence[int] | Array


#: A stream's data in a chunk: see :meth:`UserDeserializer.get_chunk`.
ChunkValue = Union[Array, CsrLike, SequenceArray, list[Array], list[CsrLike]]


class ComposableUserDeserializer(UserDeserializer):
    """A deserializer that also lists the sequences of its chunks before they are loaded.

    It supports the full randomizer and CNTK's checkpoint key of files, and may be joined with other
    deserializers by key.
    """

    def get_sequences(self, chunk_id: int) -> SequenceList:
        """Returns the sequences of a chunk. Called once for each chunk, when the source is
        created."""
        raise _lacks(self, "get_sequences(chunk_id)")


def _lacks(user: UserDeserializer, method: str) -> NotImplementedError:
    kind = type(user).__name__
    others = ", get_sequences(chunk_id)" if isinstance(user, ComposableUserDeserializer) else ""
    return NotImplementedError(
        f"The class {kind} has no {method}. A deserializer of your own needs stream_infos(), num_chunks()"
        f"{others} and get_chunk(chunk_id)."
    )


def _is_csr(value: Any) -> bool:
    return getattr(value, "format", None) == "csr" and hasattr(value, "indptr")


def _dense(array: Any, info: StreamInformation) -> Any:
    """Checks an array of samples, which need not be contiguous, and converts its values.

    A sample of one value may lack its dimension, or have one more.
    """
    if array.dtype == object:
        raise TypeError(
            "The array has Python objects (dtype=object), such as arrays of different lengths: return a list of arrays."
        )
    if np.ma.is_masked(array):
        raise ValueError("Some values of the array are masked: fill them.")
    array = _values(array, info)
    shape = tuple(info.shape)
    if array.ndim > 0 and math.prod(array.shape[1:]) == math.prod(shape) == 1:
        return array.reshape(-1, *shape)
    if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
        sizes = ", ".join(map(str, ("samples", *shape)))
        raise ValueError(
            f"The array has the shape {array.shape}, but the stream has samples of the shape {shape}, so ({sizes}"
            f"{',' * (not shape)}) was expected. Reshape the array, or correct the shape in stream_infos(). "
            "(Dense data supported only as single sample per row.)"
        )
    return array


def _values(array: Any, info: StreamInformation) -> Any:
    """Returns an array with the values' declared type: fractions are rounded, whole numbers must
    fit."""
    element = dtype_of(info.dtype) if isinstance(info.dtype, str) else np.dtype(info.dtype)
    if array.dtype == element:
        return array
    if array.dtype.kind not in "fiubV":
        raise TypeError(
            f"The array has values of the type {array.dtype}, which are not numbers. The stream has {element}."
        )
    is_rounded = array.dtype.kind in "fiub" and (element.kind in "fV" or element.name == "bfloat16")
    if not is_rounded and not (array.dtype.kind in "iub" and element.kind in "iu"):
        raise TypeError(
            f"The stream has values of the type {element}, but the array has {array.dtype}. Pass array.astype({element.name!r}), or "
            f"declare dtype={array.dtype.name!r} in stream_infos()."
        )
    with np.errstate(all="ignore"):
        made = array.astype(element)
    changed = ~np.isfinite(made) & np.isfinite(array) if is_rounded else made != array
    if changed.any():
        value = array[changed].flat[0]
        raise ValueError(
            f"The stream has values of the type {element}, which has no {value!s}: declare dtype={array.dtype.name!r} in "
            "stream_infos(), or correct the value."
        )
    return made


def _sparse(matrix: Any, info: StreamInformation) -> tuple[Any, Any, Any]:
    """Returns values, indices and offsets of a CSR matrix with one row per sample."""
    values = _values(matrix.data, info)
    if matrix.shape[1] != info.sample_size:
        raise ValueError(f"The matrix has {matrix.shape[1]} columns, but a sample has {info.sample_size} values.")
    for name in ("indices", "indptr"):
        if getattr(matrix, name).dtype.kind not in "iu":
            raise TypeError(
                f"'{name}' of the matrix has values of the type {getattr(matrix, name).dtype}, not integers."
            )
    data = np.ascontiguousarray(values)
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
    """Converts one sequence of a list."""
    if info.is_sparse:
        if not _is_csr(item):
            raise TypeError(
                f"A sequence is {_shown(item)}, not a CSR matrix. (Expecting sparse data to be represented as a csr_matrix.)"
            )
        return _sparse(item, info)
    if not isinstance(item, np.ndarray):
        raise TypeError(
            f"A sequence is {_shown(item)}, not an array. For samples of one number, return one array, np.array(list). "
            "(Expecting dense data to be represented as a numpy array.)"
        )
    is_sample = item.ndim == len(info.shape) and (
        item.ndim != 1 or item.shape == tuple(info.shape) or info.sample_size != 1
    )
    return _dense(item[np.newaxis] if is_sample else item, info)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '...'} ({type(value).__name__})"


def _counts(values: Any, what: str, dtype: Any) -> Any:
    """Converts whole numbers from 0 to an array of this type, and refuses those that do not fit."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(array.shape, dtype)
    if array.dtype.kind not in "iu" or np.ma.is_masked(values):
        raise TypeError(f"{what} must be whole numbers, not {array.dtype}{' with a mask' * np.ma.is_masked(values)}.")
    most = np.iinfo(dtype).max
    for extreme in (int(array.min()), int(array.max())):
        if not 0 <= extreme <= most:
            raise ValueError(f"{what} go from 0 to {most}, but one of them is {extreme}.")
    return np.ascontiguousarray(array, dtype)


def _name(name: Any) -> str:
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"Expected a string, '{type(name).__name__}' was provided.")
    return name.decode() if isinstance(name, bytes) else name


def _part(value: Any, info: StreamInformation) -> tuple[Any, Any]:
    """Converts a stream's data in a chunk: a list of arrays, or an array and perhaps lengths."""
    lengths = None
    if isinstance(value, SequenceArray):
        value, lengths = value.values, _counts(value.lengths, "lengths", np.uint32)
        if lengths.ndim != 1:
            raise ValueError(f"lengths have {lengths.ndim} dimensions instead of 1.")
    if isinstance(value, list):
        return [_sequence(item, info) for item in value], None
    if _is_csr(value) if info.is_sparse else isinstance(value, np.ndarray):
        return _sparse(value, info) if info.is_sparse else _dense(value, info), lengths
    kind = type(value).__name__
    if _is_csr(value) or isinstance(value, np.ndarray):
        wanted = "a CSR matrix" if info.is_sparse else "an array"
        raise TypeError(
            f"The stream is {info.storage_format}, so get_chunk must return {wanted}, or a list of them. "
            f"(Unexpected data type '{kind}' for a {info.storage_format} stream.)"
        )
    raise TypeError(
        f"get_chunk has returned {_shown(value)}. Return an array, a CSR matrix, a SequenceArray, or a list of arrays or CSR matrices. "
        f"(Unexpected type {kind}, only list, numpy or csr_matrix are expected.)"
    )


# The extension module calls the functions below.


def described(user: UserDeserializer) -> tuple[int, Streams, list[tuple[str, bool, str, list[int], bool]], bool, bool]:
    """Returns the number of chunks; the streams, also in plain types; whether thread-safe,
    composable."""
    chunks, streams = user.describe()
    plain = [_plain(info) for info in streams.values()]
    return chunks, streams, plain, bool(user.thread_safe), isinstance(user, ComposableUserDeserializer)


def _plain(info: StreamInformation) -> tuple[str, bool, str, list[int], bool]:
    """Returns name, whether sparse, element type, shape (first dimension fastest), defines the
    size."""
    if info.storage_format not in ("dense", "sparse"):
        raise ValueError(
            f"The storage format of '{info.name}' is {info.storage_format!r}. Expected 'dense' or 'sparse'."
        )
    element = element_of(info.dtype)
    if element is None:
        raise ValueError(f"The stream '{info.name}' has the dtype {info.dtype}, not one of {', '.join(ELEMENTS)}.")
    if any(dimension < 1 for dimension in info.shape):
        raise ValueError(
            f"The stream '{info.name}' has the shape {tuple(info.shape)}: each dimension is at least 1. Samples of one number have the "
            "shape (). The number of samples is not part of the shape."
        )
    if info.is_binary:
        raise ValueError(f"The stream '{info.name}' is binary, which users' streams cannot be.")
    dimensions = [whole(f"A dimension of '{info.name}'", dimension) for dimension in reversed(info.shape)]
    return info.name, info.is_sparse, element, dimensions, bool(info.defines_mb_size)


def _described(value: object) -> str:
    """Returns a short description of a wrong value."""
    return "None" if value is None else f"a value of the type {type(value).__name__}"


def loaded(user: UserDeserializer, chunk: int, streams: Streams) -> tuple[tuple[Any, Any], ...]:
    """Returns the data of a chunk for each stream: see :func:`_part`."""
    data: object = user.get_chunk(chunk)
    if not isinstance(data, Mapping):
        example = ", ".join(f"{name!r}: array" for name in streams)
        raise TypeError(
            f"get_chunk must return a dictionary, such as {{{example}}}, not {_described(data)}. "
            "(The chunk should be a dictionary of a stream name into a list of sequences.)"
        )
    by_name = {_name(name): value for name, value in data.items()}
    for name in by_name:
        if name not in streams:
            raise ValueError(
                f"get_chunk returned the stream {name!r}, which stream_infos() does not have. There are: "
                f"{', '.join(map(repr, streams))}. (Stream with name '{name}' does not exist.)"
            )
    parts = []
    for name, info in streams.items():
        if name not in by_name:
            raise ValueError(f"get_chunk returned no stream '{name}': each stream of stream_infos() needs its data.")
        try:
            parts.append(_part(by_name[name], info))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"Stream '{name}': {error}") from error
    return tuple(parts)


def listed(user: ComposableUserDeserializer, chunk: int) -> tuple[int, Any, Any]:
    """Returns the number of a chunk's sequences, their lengths and keys: see
    :func:`._keys.checked`."""
    sequences = user.get_sequences(chunk)
    count = whole("The number of sequences", sequences.count)
    lengths = sequences.lengths
    if lengths is not None:
        lengths = _counts(lengths, "lengths", np.uint32)
        if lengths.shape != (count,):
            raise ValueError(f"There are {lengths.size} lengths for {count} sequences.")
    return count, lengths, checked(sequences.keys, count)
