"""Tables in memory as deserializers: NumPy arrays, SciPy matrices, Arrow and pandas columns.

A chunk is a slice of the arrays, which the library reads in place. Python code runs once per chunk,
and never per sequence.
"""

from __future__ import annotations

import copy
import mmap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from . import _arrow
from ._explain import explained, resembles, unknown
from ._keys import Keys, checked, is_text
from ._minibatch import StreamInformation
from ._rules import POSITIVE, TABLE, TEXT, Maybe, Whole, Within
from ._types import ELEMENTS, Array, ColumnLike, CsrLike, element_of
from ._user import ChunkValue, ComposableUserDeserializer, Csr, SequenceArray, SequenceList

#: Number of chunks that the data are divided into: CNTK's default window, so that all data are
#: randomized together.
CHUNKS = 128

#: Unsupported types, and the types that hold their values. Values are converted chunk by chunk.
_WIDER: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.int8): np.dtype(np.int16),
    np.dtype(np.uint16): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.int64),
    np.dtype(np.uint64): np.dtype(np.int64),
}

#: The options of :func:`from_arrays`.
_OPTIONS = ("lengths", "keys", "minibatch_stream", "chunk_size")

#: Limits of the library: samples of a sequence, int64 values.
_MOST_LENGTH = 2**32 - 1
_MOST = 2**63 - 1

Lengths = Union[Sequence[int], Array, None]


#: Samples are checked once all of them are known.
_IN_SOURCE = Within("by ArrayDeserializer")
_SIZE = Whole(1, 2**31 - 1)


@explained("OneHot(ids, 1000)", ids=_IN_SOURCE, size=Maybe(_SIZE))
class OneHot(NamedTuple):
    """Indices that stand for one-hot vectors: see :func:`one_hot`.

    * ``ids``: one integer per sample
    * ``size``: size of the vectors; None: the number of categories
    """

    ids: ColumnLike
    size: int | None


#: The samples of a stream: see :func:`from_arrays`.
Samples = Union[ColumnLike, CsrLike, OneHot]


@explained("one_hot(ids, 1000)", ids=_IN_SOURCE, size=Maybe(_SIZE))
def one_hot(ids: ColumnLike, size: int | None = None) -> OneHot:
    """Declares indices of words or classes as one-hot vectors of ``size``, for :func:`from_arrays`.

    The stream is sparse. ``ids`` has one integer from 0 to ``size - 1`` per sample, as an array, or
    as a column of Arrow or pandas, which may be a column of lists. int32 is read in place. ``size``
    may be omitted for categories (pandas) and dictionaries (Arrow).
    """
    return OneHot(ids, size)


class _Column:
    """The samples of a stream, in consecutive pieces."""

    def __init__(self, pieces: list[npt.NDArray[Any]]) -> None:
        # Unaligned arrays, such as a field of packed records, cannot be read in place.
        self.pieces = [piece if piece.flags.aligned else piece.copy() for piece in pieces]
        # Integers have 32 bits by default in NumPy 1 on Windows.
        self.firsts = np.cumsum([0, *(len(piece) for piece in pieces)], dtype=np.int64)
        self.samples = int(self.firsts[-1])

    def cut(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Returns samples ``begin`` to ``end``; a copy only if they span several pieces."""
        place = int(np.searchsorted(self.firsts, begin, "right")) - 1
        parts = []
        while True:
            first = int(self.firsts[place])
            parts.append(self.pieces[place][max(begin - first, 0) : end - first])
            place += 1
            if place == len(self.pieces) or int(self.firsts[place]) >= end:
                return parts[0] if len(parts) == 1 else np.concatenate(parts)


class _Dense(_Column):
    is_sparse = False

    def __init__(self, pieces: list[npt.NDArray[Any]]) -> None:
        super().__init__(pieces)
        kind = pieces[0].dtype.newbyteorder("=")
        if 0 in pieces[0].shape[1:]:
            raise ValueError(f"A sample has the shape {pieces[0].shape[1:]}, and so no values.")
        self.element: np.dtype[Any] = _WIDER.get(kind, kind)
        if element_of(self.element) is None:
            raise TypeError(
                f"Values of the type {kind} are not supported: streams have {', '.join(ELEMENTS)}. For example: "
                "values.astype('float32')."
            )
        self.shape = pieces[0].shape[1:]

    def take(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Returns samples ``begin`` to ``end`` in the form that the library takes."""
        samples = self.cut(begin, end)
        if samples.dtype.kind == "u" and samples.dtype.itemsize == 8 and samples.size and int(samples.max()) > _MOST:
            raise ValueError(f"The value {int(samples.max())} is too large: it does not fit in int64.")
        return samples.astype(self.element, copy=False)


def _is_mapped(array: npt.NDArray[Any]) -> bool:
    """Returns whether an array is a mapped file."""
    return isinstance(array, np.memmap) or isinstance(array.base, (np.memmap, mmap.mmap))


class _Ids(_Column):
    is_sparse = True
    element = np.dtype(np.float32)

    def __init__(self, pieces: list[npt.NDArray[Any]], size: int | None) -> None:
        super().__init__(pieces)
        if pieces[0].dtype.kind not in "iu" or pieces[0].ndim != 1:
            raise TypeError(
                f"Class indices must be one integer per sample, not {pieces[0].dtype} of {pieces[0].ndim} dimensions."
            )
        if size is None:
            raise ValueError("The number of classes is not known: pass it as the second argument of one_hot.")
        self.shape = (size,)
        begin = 0
        for piece in pieces:
            # Mapped files are checked when they are read.
            if len(piece) and not _is_mapped(piece):
                self._check(piece, begin)
            begin += len(piece)
        #: Ones for the samples of a chunk, and offsets of samples with one value each, shared by
        #: all chunks.
        self.filled = np.ones(0, np.float32), np.zeros(1, np.int32)

    def _check(self, ids: npt.NDArray[Any], begin: int) -> None:
        """Refuses classes that do not exist; ``begin`` is the number of the first sample."""
        size = self.shape[0]
        if int(ids.min()) >= 0 and int(ids.max()) < size:
            return
        place = int(np.argmax((ids < 0) | (ids >= size)))
        hint = " Fill unknown classes, or leave them out." if int(ids[place]) < 0 else ""
        hint = " Do the classes count from 1?" if int(ids[place]) == size else hint
        raise ValueError(
            f"Sample {begin + place} has the class {int(ids[place])}, but classes go from 0 to {size - 1}.{hint}"
        )

    def take(self, begin: int, end: int) -> Csr:
        """Returns samples ``begin`` to ``end`` in the form that the library takes."""
        count = end - begin
        # Several threads may run this concurrently; each uses the arrays that it reads here.
        ones, offsets = self.filled
        if count > len(ones):
            self.filled = ones, offsets = np.ones(count, np.float32), np.arange(count + 1, dtype=np.int32)
        ids = self.cut(begin, end)
        if any(map(_is_mapped, self.pieces)):
            self._check(ids, begin)
        if ids.dtype not in (np.int32, np.int64):
            ids = ids.astype(np.int32 if ids.dtype.itemsize < 4 else np.int64)
        return Csr(ones[:count], ids, offsets[: count + 1], (count, self.shape[0]))


class _Sparse:
    is_sparse = True

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        if len(matrix.shape) != 2:
            raise ValueError(
                f"A CSR matrix must have rows and columns, but this one has the shape {tuple(matrix.shape)}."
            )
        self.samples, size = (int(number) for number in matrix.shape)
        self.shape = (size,)
        self.element = matrix.data.dtype
        if self.element not in (np.float32, np.float64):
            raise TypeError(f"Values of the type {self.element} are not supported: pass matrix.astype('float32').")
        for name in ("data", "indices", "indptr"):
            part = getattr(matrix, name)
            if not isinstance(part, np.ndarray) or part.ndim != 1 or np.ma.is_masked(part):
                raise TypeError(f"'{name}' of the CSR matrix is not a plain array of one dimension.")
            if name != "data" and part.dtype.kind not in "iu":
                raise TypeError(f"'{name}' of the CSR matrix has values of the type {part.dtype}, not integers.")
        _check_offsets(matrix.indptr, self.samples, min(len(matrix.indices), len(matrix.data)))

    def take(self, begin: int, end: int) -> Csr:
        """Returns samples ``begin`` to ``end`` in the form that the library takes."""
        offsets = self.matrix.indptr[begin : end + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        values, indices = self.matrix.data[first:last], self.matrix.indices[first:last]
        return Csr(values.astype(self.element, copy=False), indices, offsets - offsets[0], (end - begin, self.shape[0]))


def _check_offsets(indptr: npt.NDArray[Any], rows: int, entries: int) -> None:
    """Refuses invalid row offsets of a CSR matrix."""
    if len(indptr) != rows + 1:
        raise ValueError(f"The CSR matrix has {rows} rows, but {len(indptr)} entries in indptr instead of one more.")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        row = int(falls.argmax())
        raise ValueError(f"indptr of the CSR matrix falls from {indptr[row]} to {indptr[row + 1]} in row {row}.")
    if int(indptr[0]) < 0 or int(indptr[-1]) > entries:
        raise ValueError(
            f"indptr of the CSR matrix goes from {indptr[0]} to {indptr[-1]}, but there are {entries} values and indices."
        )


def _plain(value: Any) -> npt.NDArray[Any]:
    """Converts a value to an array, and refuses values that would lose information."""
    if np.ma.is_masked(value):
        masked = int(np.ma.getmaskarray(value).sum())
        raise ValueError(f"{masked} values are masked: fill them, values.filled(0), or leave them out.")
    try:
        return np.asarray(value)
    # Frameworks raise arbitrary exceptions for tensors on other devices, with gradients, or of
    # types that NumPy lacks.
    except Exception as error:
        raise TypeError(f"{type(value).__name__} cannot be read as an array: {error}") from None


def _check_frame(value: Any, array: npt.NDArray[Any]) -> None:
    """Refuses missing values, and a pandas object whose values would change in an array."""
    kinds = list(value.dtypes) if hasattr(value, "columns") else []
    is_pandas = hasattr(value, "iloc")
    if not is_pandas and len(set(map(str, kinds))) > 1:
        raise TypeError("The columns of the table have different types: cast them to one type.")
    for place, kind in enumerate(kinds if is_pandas else ()):
        if not isinstance(kind, np.dtype):
            raise TypeError(f"Column {place} has values of the type {kind}: pass each such column by itself.")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(
            f"{int(np.isnan(array).sum())} values are missing (NaN): fill them, or leave them out. If they are intended, "
            "pass values.to_numpy()."
        )
    if is_pandas and array.dtype.kind == "f" and len(set(kinds)) > 1:
        for place, kind in enumerate(kinds):
            column = value.iloc[:, place].to_numpy()
            if kind.kind in "iu" and not np.array_equal(column, array[:, place].astype(kind)):
                raise ValueError(
                    f"Column {place} has integers that {array.dtype} cannot hold: pass columns of one type."
                )


def _columns(value: Any) -> _arrow.Column:
    """Returns pieces, lengths and categories of a value that is not a sparse matrix."""
    if isinstance(value, _arrow.Column):
        return value
    dtype = getattr(value, "dtype", None)
    categories = getattr(dtype, "categories", None)
    if categories is not None and (hasattr(value, "cat") or hasattr(value, "codes")):
        codes = np.asarray(value.cat.codes if hasattr(value, "cat") else value.codes)
        if len(codes) and codes.min() < 0:
            raise ValueError(f"{int((codes < 0).sum())} values have no category: fill them, or leave them out.")
        return _arrow.Column([codes], None, len(categories))
    if (
        _arrow.is_arrow(value)
        and not (isinstance(dtype, np.dtype) and dtype != np.dtype(object))
        and not hasattr(value, "dtypes")
    ):
        return _arrow.read(value)
    if callable(getattr(value, "tocsr", None)):
        raise TypeError(
            f"A sparse matrix in the format '{getattr(value, 'format', '?')}' was given: pass matrix.tocsr(), in which a row is a "
            "sample."
        )
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, (int, float)) for item in value):
            raise TypeError("A list of numbers was given for a stream: pass an array, np.array(numbers).")
        raise TypeError(
            "A list was given for a stream. Join sequences to one array, and pass the number of samples of each: "
            "x=np.concatenate(sequences), lengths=[len(sequence) for sequence in sequences]."
        )
    array = _plain(value)
    if hasattr(value, "iloc") or hasattr(value, "dtypes"):
        _check_frame(value, array)
    if array.dtype.kind in "SU" and array.ndim:
        raise TypeError(
            "Texts cannot be read as samples. Make them classes, classes, ids = np.unique(texts, return_inverse=True), and pass "
            "one_hot(ids, len(classes)); from_table does this for the columns of a table."
        )
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise TypeError(
            f"{type(value).__name__} with values of the type {array.dtype} cannot be read as an array of samples."
        )
    return _arrow.Column([array], None, None)


def _read(value: Any) -> tuple[_Dense | _Ids | _Sparse, npt.NDArray[np.int64] | None]:
    """Returns a stream, and the lengths of its sequences if it has its own lengths."""
    if getattr(value, "format", None) == "csr" and hasattr(value, "indptr"):
        return _Sparse(value), None
    is_one_hot = isinstance(value, OneHot)
    column = _columns(value.ids if is_one_hot else value)
    if not is_one_hot and column.categories is None:
        return _Dense(column.pieces), column.lengths
    size = column.categories if not is_one_hot or value.size is None else value.size
    return _Ids(column.pieces, size), column.lengths


def _lengths(
    samples: int, own: npt.NDArray[np.int64] | None, given: Lengths, is_for_this_stream: bool
) -> npt.NDArray[np.int64] | None:
    """Returns the lengths of a stream's sequences, from its own and the given ones; None: all are
    1."""
    if given is not None:
        wanted = _plain(given)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise ValueError(f"Lengths must be a list of integers, not {wanted.dtype} of {wanted.ndim} dimensions.")
        wanted = wanted.astype(np.int64)
        if own is not None and not np.array_equal(own, wanted):
            raise ValueError("The lists of the column have other lengths than `lengths`: omit `lengths`.")
        # One sample per sequence, such as a label.
        is_single = own is None and samples == len(wanted) and not is_for_this_stream
        own = np.ones(samples, np.int64) if is_single else wanted
        _check_positive(wanted)
    if own is None:
        return None
    _check_positive(own)
    if int(own.sum()) != samples:
        raise ValueError(
            f"The lengths of {len(own)} sequences add up to {int(own.sum())}, but the stream has {samples} samples."
        )
    return None if (own == 1).all() else own


def _check_positive(lengths: npt.NDArray[np.int64]) -> None:
    if len(lengths) and lengths.max() > _MOST_LENGTH:
        raise ValueError(f"A sequence has the length {lengths.max()}: at most {_MOST_LENGTH} samples.")
    if len(lengths) and lengths.min() < 1:
        place = int(np.argmax(lengths < 1))
        raise ValueError(f"Sequence {place} has the length {lengths[place]}: a sequence has at least one sample.")


@explained(
    "ArrayDeserializer({'x': values})",
    arrays=TABLE,
    lengths=_IN_SOURCE,
    keys=_IN_SOURCE,
    minibatch_stream=Maybe(TEXT),
    chunk_size=Maybe(POSITIVE),
)
class ArrayDeserializer(ComposableUserDeserializer):
    """Arrays in memory as a deserializer: see :func:`from_arrays`.

    Here ``arrays`` is a mapping from stream names to arrays.
    """

    thread_safe = True

    #: By stream, the values that its numbers stand for: see :func:`from_csv` and
    #: :func:`from_table`.
    categories: Mapping[str, Sequence[object]]
    #: Whether float64 was asked for, and does not follow the source's precision.
    keeps_types = False

    def __init__(
        self,
        arrays: Mapping[str, Samples],
        *,
        lengths: Lengths | Mapping[str, Lengths] = None,
        keys: Keys = None,
        minibatch_stream: str | None = None,
        chunk_size: int | None = None,
    ) -> None:
        self.categories = {}
        if not arrays:
            raise ValueError("No arrays were given: from_arrays(x=values) has one stream, 'x'.")
        given = dict(lengths) if isinstance(lengths, Mapping) else dict.fromkeys(arrays, lengths)
        for name in (*given, *([] if minibatch_stream is None else [minibatch_stream])):
            if name not in arrays:
                raise ValueError(f"There is no array '{name}'. The arrays are {', '.join(map(repr, arrays))}.")
        self._streams: dict[str, _Dense | _Ids | _Sparse] = {}
        own_lengths: dict[str, npt.NDArray[np.int64] | None] = {}
        for name, value in arrays.items():
            try:
                stream, own = _read(value)
                own_lengths[name] = _lengths(stream.samples, own, given.get(name), isinstance(lengths, Mapping))
                self._streams[name] = stream
            except (TypeError, ValueError) as error:
                raise type(error)(f"Stream '{name}': {error}") from None
        counts = {
            name: stream.samples if own is None else len(own)
            for (name, stream), own in zip(self._streams.items(), own_lengths.values())
        }
        self._count = next(iter(counts.values()))
        if len(set(counts.values())) > 1 or self._count == 0:
            listed = ", ".join(f"'{name}' has {number}" for name, number in counts.items())
            raise ValueError(
                f"All streams need the same number of sequences, at least 1: {listed}. Where sequences have several samples, "
                "pass `lengths`, the number of samples of each."
            )
        if (
            not isinstance(lengths, Mapping)
            and lengths is not None
            and all(own is None for own in own_lengths.values())
        ):
            total = int(np.asarray(lengths, np.int64).sum())
            if total != self._count:
                raise ValueError(
                    f"The lengths add up to {total}, but no array has {total} samples: {_listed(self._streams)}."
                )
        #: By stream, the first sample of each sequence and the end of the last one. None: each
        #: sample is a sequence.
        self._offsets = {name: None if own is None else _offsets(own) for name, own in own_lengths.items()}
        self._lengths = self._declared(own_lengths, minibatch_stream)
        self._keys = checked(keys, self._count)
        self.has_text_keys = is_text(self._keys)
        self._bounds = self._chunks(chunk_size)
        self._defines = minibatch_stream

    def _declared(
        self, lengths: Mapping[str, npt.NDArray[np.int64] | None], defines: str | None
    ) -> npt.NDArray[np.uint32] | None:
        """Returns the sizes of sequences in minibatches.

        A sequence counts its samples in the stream that defines the size, or in its longest stream.
        """
        if defines is not None:
            counted = [lengths[defines]]
        else:
            counted = list(lengths.values())
        longest = None
        for own in counted:
            if own is not None:
                longest = own if longest is None else np.maximum(longest, own)
        return None if longest is None else longest.astype(np.uint32)

    def _chunks(self, chunk_size: int | None) -> npt.NDArray[np.int64]:
        """Returns the sequences at which chunks begin, and the end of the last one."""
        if self._lengths is None:
            ends = np.arange(1, self._count + 1, dtype=np.int64)
        else:
            ends = np.cumsum(self._lengths, dtype=np.int64)
        size = -(-int(ends[-1]) // CHUNKS) if chunk_size is None else chunk_size
        bounds = np.searchsorted(ends, np.arange(0, int(ends[-1]), size, dtype=np.int64), "right")
        made: npt.NDArray[np.int64] = np.unique(np.append(bounds, self._count)).astype(np.int64)
        return made

    def in_precision(self, precision: str) -> ArrayDeserializer:
        """Returns this deserializer for a source of this ``precision``, which float64 values
        follow."""
        wide = [name for name, stream in self._streams.items() if stream.element == np.float64]
        if precision == "double" or self.keeps_types or not wide:
            return self
        narrow = copy.copy(self)
        narrow._described = None
        narrow._streams = {name: copy.copy(stream) for name, stream in self._streams.items()}
        for name in wide:
            narrow._streams[name].element = np.dtype(np.float32)
        return narrow

    def with_sequences(self) -> dict[str, bool]:
        """Returns for each stream whether it has sequences of several samples."""
        return {name: offsets is not None for name, offsets in self._offsets.items()}

    def __repr__(self) -> str:
        streams = []
        for name, stream in self._streams.items():
            kind = f"sparse {stream.element}" if stream.is_sparse else str(stream.element)
            classes = f" of {len(self.categories[name])} categories" if name in self.categories else ""
            streams.append(f"{name} {stream.shape} {kind}{classes}, {stream.samples} samples")
        return f"<{type(self).__name__}: {self._count} sequences of {'; '.join(streams)}>"

    def stream_infos(self) -> list[StreamInformation]:
        """Returns the streams, in the order of the arrays."""
        return [
            StreamInformation(
                name,
                number,
                "sparse" if stream.is_sparse else "dense",
                stream.element,
                stream.shape,
                name == self._defines,
            )
            for number, (name, stream) in enumerate(self._streams.items())
        ]

    def num_chunks(self) -> int:
        """Returns the number of chunks."""
        return len(self._bounds) - 1

    def get_sequences(self, chunk_id: int) -> SequenceList:
        """Returns the sequences of a chunk."""
        begin, end = self._bounds[chunk_id : chunk_id + 2]
        lengths = None if self._lengths is None else self._lengths[begin:end]
        return SequenceList(int(end - begin), lengths, None if self._keys is None else self._keys[begin:end])

    def get_chunk(self, chunk_id: int) -> dict[str, ChunkValue]:
        """Returns the data of a chunk: slices of the arrays."""
        begin, end = (int(bound) for bound in self._bounds[chunk_id : chunk_id + 2])
        return {name: self._slice(name, begin, end) for name in self._streams}

    def _slice(self, name: str, begin: int, end: int) -> Any:
        stream, offsets = self._streams[name], self._offsets[name]
        if offsets is None:
            return stream.take(begin, end)
        own = offsets[begin : end + 1]
        return SequenceArray(stream.take(int(own[0]), int(own[-1])), np.diff(own).astype(np.uint32))


def _listed(streams: Mapping[str, Any]) -> str:
    return ", ".join(f"'{name}' has {stream.samples}" for name, stream in streams.items())


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


@explained(
    "from_arrays(words=words, labels=labels, lengths=lengths)",
    lengths=_IN_SOURCE,
    keys=_IN_SOURCE,
    minibatch_stream=Maybe(TEXT),
    chunk_size=Maybe(POSITIVE),
)
def from_arrays(
    *,
    lengths: Lengths | Mapping[str, Lengths] = None,
    keys: Keys = None,
    minibatch_stream: str | None = None,
    chunk_size: int | None = None,
    **arrays: Samples,
) -> ArrayDeserializer:
    """Returns a deserializer of arrays in memory, without copies: one stream per named array.

    Each array holds the samples of all sequences, one after the other:

    * NumPy, or anything that ``np.asarray`` takes without a copy: shape (samples, *shape of a
      sample), floats, integers or bool. The stream has the array's type, except that float64
      becomes float32 unless the source has ``precision="double"``, int8 becomes int16, uint16
      int32, uint32 and uint64 int64, chunk by chunk
    * a SciPy CSR matrix with one row per sample: a sparse stream
    * :func:`one_hot` of integers: a sparse stream of words or classes
    * a pandas column; categories become one-hot vectors
    * an Arrow column, from pyarrow, Polars and others: numbers, lists of fixed size (one sample
      each) or lists (one sequence each); dictionaries become one-hot vectors

    ``lengths`` is the number of samples of each sequence, for all arrays, or by name. An array with
    as many samples as there are lengths has one sample per sequence. Without ``lengths`` each
    sample is a sequence, except in Arrow lists, which have their own lengths.

    ``keys`` are numbers or texts, one per sequence, for joining the data with other deserializers;
    without them the key is the sequence's number. Different texts are different keys, ``"007"`` and
    ``"7"`` too. Texts may be joined with numbers if all of them are numbers as Python prints them.
    None, NaN and other nulls are refused.

    ``minibatch_stream`` is the stream whose samples count in minibatch sizes, instead of the
    longest one. ``chunk_size`` is the number of samples of a chunk, the unit in which data are
    randomized and distributed among workers. The default makes 128 chunks, which is the default
    window.

    Arrays must not change while a source reads them. Use :class:`ArrayDeserializer` for stream
    names that are not Python identifiers, or that are options of this function.
    """
    for name, value in arrays.items():
        is_array = isinstance(value, OneHot) or not isinstance(value, (int, str, list, tuple))
        if not is_array and resembles(name, _OPTIONS):
            raise TypeError(
                f"{unknown('option of from_arrays', name, _OPTIONS)} All other names are streams: arrays, not "
                f"{type(value).__name__}."
            )
    return ArrayDeserializer(
        arrays, lengths=lengths, keys=keys, minibatch_stream=minibatch_stream, chunk_size=chunk_size
    )
