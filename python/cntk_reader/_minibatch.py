"""Minibatches: NumPy arrays and SciPy matrices over the library's memory, without copies.

A minibatch's memory is given back when neither the :class:`Minibatch` nor any array made from it is alive any more.
Arrays are read-only: the memory may be shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ctypes import byref, c_size_t, c_void_p, create_string_buffer
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _library as lib

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_describe_minibatch = lib.checked("minibatch_describe", quick=True)
_minibatch_stream = lib.checked("minibatch_stream_describe", quick=True)
_key_text = lib.checked("minibatch_get_key_text")

#: Layout of a record: the sequence's number (or GAP), its lane, and the steps where it begins and ends.
RECORD = np.dtype([("sequence", "u8"), ("lane", "u8"), ("begin", "i8"), ("end", "u8")])
GAP = lib.GAP


@dataclass(frozen=True)
class StreamInformation:
    """Describes a stream of a user's deserializer or of a source.

    ``shape`` is that of one sample in NumPy's order, the last axis varying fastest; ``()`` is a scalar. ``is_binary``: samples are
    four opaque bytes each, as those of lattices are; streams of users are never binary.
    """

    name: str
    stream_id: int
    storage_format: str  #: "dense" or "sparse"
    dtype: npt.DTypeLike
    shape: tuple[int, ...]
    defines_mb_size: bool = False
    is_binary: bool = False

    @property
    def is_sparse(self) -> bool:
        """Whether the stream is sparse."""
        return self.storage_format == "sparse"

    @property
    def sample_size(self) -> int:
        """Values of one sample."""
        size = 1
        for dimension in self.shape:
            size *= dimension
        return size


class _Owner:
    """A reference to a minibatch of the library."""

    __slots__ = ("handle",)

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle

    def __del__(self, release: Any = lib.minibatch_release) -> None:
        release(self.handle)


class _Memory:
    """Memory of a minibatch for NumPy. An array keeps this object alive, and this object the minibatch."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: _Owner, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "shape": shape,
            "typestr": dtype.str,
            "descr": dtype.descr,
        }


def _view(owner: _Owner, address: int | None, shape: tuple[int, ...], dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_Memory(owner, address, shape, dtype))


class StreamMinibatch:
    """One stream's part of a minibatch.

    It has ``steps`` times ``lanes`` columns, each one sample; step t of lane s is column ``t * lanes + s``. Sequences lie
    in the lanes; columns without data are gaps, and hold zeros.

    Of a binary stream (``info.is_binary``), such as lattices, each sample is four opaque bytes, and in minibatches of whole
    sequences each sequence has a lane of its own in which its bytes are next to each other: step t of lane s is then
    column ``s * steps + t``.
    """

    def __init__(self, owner: _Owner, info: StreamInformation) -> None:
        self._owner = owner
        self._part = part = lib.StreamMinibatch()
        _minibatch_stream(owner.handle, info.stream_id, byref(part))
        self.info = info
        self.steps: int = part.steps
        self.lanes: int = part.lanes
        self.num_samples: int = part.samples
        self.num_sequences: int = part.sequences
        self.is_sparse: bool = part.storage == 1
        self.dtype = np.dtype(np.float32 if part.element == 1 else np.float64)

    def _of(self, address: int | None, count: int, dtype: Any) -> Any:
        return _view(self._owner, address, (count,), dtype)

    @property
    def records(self) -> npt.NDArray[Any]:
        """Which columns belong to which sequence, of dtype :data:`RECORD`; gaps included. A view."""
        return self._of(self._part.records, self._part.record_count, RECORD)  # type: ignore[no-any-return]

    @property
    def array(self) -> npt.NDArray[Any]:
        """Dense data, of shape (steps, lanes, *shape of a sample). A view, also where lanes come one after the other."""
        if self.is_sparse:
            raise TypeError(f"The stream '{self.info.name}' is sparse: use .csr, .asarray() or .as_sequences().")
        if self._part.sequence_major:
            shape = (self.lanes, self.steps, *self.info.shape)
            return _view(self._owner, self._part.values, shape, self.dtype).swapaxes(0, 1)  # type: ignore[no-any-return]
        shape = (self.steps, self.lanes, *self.info.shape)
        return _view(self._owner, self._part.values, shape, self.dtype)  # type: ignore[no-any-return]

    @property
    def csr(self) -> csr_matrix:
        """Sparse data, a matrix with one row for each column of the layout, over the minibatch's own arrays.

        Indices are in the data's order: they may be unsorted and repeat; values with equal indices add up.
        ``csr.T`` is CNTK's CSC matrix, without copies too.
        """
        values, indices, starts = self._sparse()
        return self._matrix(values, indices, starts)

    def _sparse(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        if not self.is_sparse:
            raise TypeError(f"The stream '{self.info.name}' is dense: use .array or .as_sequences().")
        part = self._part
        return (
            self._of(part.values, part.value_count, self.dtype),
            self._of(part.indices, part.value_count, np.int32),
            self._of(part.column_offsets, part.columns + 1, np.int32),
        )

    def _matrix(self, values: Any, indices: Any, starts: Any) -> csr_matrix:
        from scipy.sparse import csr_matrix

        shape = (len(starts) - 1, self._part.sample_size)
        return csr_matrix((values, indices, starts), shape=shape, copy=False)

    def asarray(self) -> npt.NDArray[Any]:
        """All data, dense, of shape (steps, lanes, *shape of a sample): a view of dense data, a copy of sparse ones."""
        if not self.is_sparse:
            return self.array
        return self.csr.toarray().reshape(self.steps, self.lanes, *self.info.shape)  # type: ignore[no-any-return]

    def as_sequences(self) -> list[Any]:
        """The sequences in the minibatch's order, each an array (samples, *shape of a sample) or a matrix (samples, values).

        Dense ones are views. So are the values of sparse ones, if their samples are next to each other (minibatches of
        one lane or one step); else they are copied. Of a truncated sequence it is the part that this minibatch has.
        """
        records = self.records
        records = records[records["sequence"] != GAP]
        records = records[np.argsort(records["sequence"], kind="stable")]
        begins = np.maximum(records["begin"], 0).tolist()
        ends = np.minimum(records["end"], self.steps).tolist()
        lanes = records["lane"].tolist()
        if not self.is_sparse:
            array = self.array
            return [array[begin:end, lane] for begin, end, lane in zip(begins, ends, lanes)]
        values, indices, starts = self._sparse()
        whole = None
        sequences = []
        for begin, end, lane in zip(begins, ends, lanes):
            first = begin * self.lanes + lane
            if self.lanes == 1 or end - begin == 1:
                own = starts[first : first + end - begin + 1]
                low, high = own[0], own[-1]
                sequences.append(self._matrix(values[low:high], indices[low:high], own - low))
            else:
                whole = self.csr if whole is None else whole
                sequences.append(whole[first : (end - 1) * self.lanes + lane + 1 : self.lanes])
        return sequences

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"<{kind} stream '{self.info.name}': {self.num_sequences} sequences, {self.num_samples} samples, "
            f"{self.steps} steps x {self.lanes} lanes of {self.info.shape}>"
        )


class Minibatch(Mapping[Any, StreamMinibatch]):
    """A minibatch: streams by name or by :class:`StreamInformation`. Without data it is empty, and false.

    It may outlive its source, and be shared between threads.
    """

    def __init__(self, handle: c_void_p, streams: dict[str, StreamInformation]) -> None:
        self._owner = _Owner(handle)
        self._info = info = lib.MinibatchInfo()
        _describe_minibatch(handle, byref(info))
        self.end_of_sweep: bool = info.end_of_sweep != 0
        self.end_of_epoch: bool = info.end_of_epoch != 0
        self._streams = streams if info.stream_count else {}
        self._parts: dict[str, StreamMinibatch] = {}

    def __getitem__(self, stream: str | StreamInformation) -> StreamMinibatch:
        name = stream.name if isinstance(stream, StreamInformation) else stream
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = StreamMinibatch(self._owner, self._streams[name])
        return part

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def keys_of_sequences(self) -> npt.NDArray[np.uint64]:
        """The key of each sequence as a number, by the sequence's number in the records. A view."""
        return _view(self._owner, self._info.keys, (self._info.key_count,), np.uint64)  # type: ignore[no-any-return]

    def key_text(self, sequence: int) -> str:
        """The key of a sequence as CNTK shows it."""
        length = c_size_t()
        _key_text(self._owner.handle, sequence, None, 0, byref(length))
        text = create_string_buffer(length.value + 1)
        _key_text(self._owner.handle, sequence, text, len(text), byref(length))
        return text.value.decode("utf-8", "replace")

    def __repr__(self) -> str:
        parts = ", ".join(repr(part) for part in self.values())
        return f"<Minibatch: {parts or 'no data'}{', end of sweep' if self.end_of_sweep else ''}>"
