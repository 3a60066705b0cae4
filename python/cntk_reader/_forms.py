"""Forms of a minibatch's sequences, each made by one call of the library: padded, packed, indices."""

from __future__ import annotations

from ctypes import byref, c_size_t
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._memory import Owner, view
from ._rules import real, whole
from ._types import Floats, FloatType

_pad = lib.checked("minibatch_stream_pad")
_pack = lib.checked("minibatch_stream_pack")
_pad_indices = lib.checked("minibatch_stream_pad_indices")
_pack_indices = lib.checked("minibatch_stream_pack_indices")
_canonical = lib.checked("minibatch_stream_canonical")

#: Values that the library makes of sparse samples at most.
_MOST_DENSIFIED = 2**31


class Padded(NamedTuple):
    """Sequences side by side, filled up to one length.

    * ``array``: (sequences, length, *shape of a sample)
    * ``mask``: (sequences, length), true where there is a sample
    """

    array: Floats
    mask: npt.NDArray[np.bool_]


class PaddedIndices(NamedTuple):
    """Indices of one-hot samples, filled up to one length.

    * ``array``: (sequences, length), int32
    * ``mask``: (sequences, length), true where there is a sample
    """

    array: npt.NDArray[np.int32]
    mask: npt.NDArray[np.bool_]


class Packed(NamedTuple):
    """Sequences one after the other: sequence i is ``values[offsets[i]:offsets[i + 1]]``.

    The offsets are what attention over sequences of different lengths calls ``cu_seqlens``.

    * ``values``: (samples, *shape of a sample)
    * ``offsets``: (sequences + 1,), int32
    * ``longest``: samples of the longest sequence
    """

    values: Floats
    offsets: npt.NDArray[np.int32]
    longest: int


class PackedIndices(NamedTuple):
    """Indices of one-hot samples, one sequence after the other: sequence i is ``values[offsets[i]:offsets[i + 1]]``.

    * ``values``: (samples,), int32
    * ``offsets``: (sequences + 1,), int32
    * ``longest``: samples of the longest sequence
    """

    values: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int32]
    longest: int


class Sparse(NamedTuple):
    """A CSR matrix with one row for each column of the layout: row r has the values from ``indptr[r]`` to ``indptr[r + 1]``.

    Rows of gaps are empty. Indices are in the data's order: they may be unsorted and repeat; values with equal indices add up. Those of
    :meth:`StreamMinibatch.canonical` ascend in each row, and none is there twice.

    * ``data``: (stored values,)
    * ``indices``: (stored values,), int32: the place of each value in its sample
    * ``indptr``: (steps * lanes + 1,), int32
    * ``shape``: (steps * lanes, values of a sample)
    """

    data: Floats
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int32]
    shape: tuple[int, int]


def _number(value: object) -> float:
    """What is put after sequences."""
    if isinstance(value, (float, np.floating)):
        return float(value)  # NaN marks places well.
    return real("What is put after sequences", value)


def _is_canonical(indices: npt.NDArray[np.int32], indptr: npt.NDArray[np.int32]) -> bool:
    """Whether the indices of each row ascend, each once."""
    if len(indices) < 2:
        return True
    ascends = indices[1:] > indices[:-1]
    first = indptr[(indptr > 0) & (indptr < len(indices))]
    ascends[first - 1] = True
    return bool(ascends.all())


class Forms:
    """Makes the forms of one stream of a minibatch."""

    __slots__ = ("dtype", "number", "owner", "part", "shape")

    def __init__(
        self, owner: Owner, number: int, part: lib.StreamMinibatch, shape: tuple[int, ...], dtype: FloatType
    ) -> None:
        self.owner = owner
        self.number = number
        self.part = part
        self.shape = shape
        self.dtype = dtype

    def padded(self, value: float, length: int | None) -> Padded:
        """See :meth:`StreamMinibatch.padded`."""
        part, value = self.part, _number(value)
        mask_shape = self._padded_shape(length)
        sequences, steps = mask_shape
        shape = (sequences, steps, *self.shape)
        if part.storage == 0 and part.is_packed and part.samples == sequences * steps:
            # Every sequence is this long, and nothing lies between them.
            return Padded(self._values(shape), np.ones(mask_shape, np.bool_))
        size = sequences * steps * part.sample_size
        if part.storage != 0 and size > _MOST_DENSIFIED:
            # An error, which the library explains.
            _pad(self.owner.handle, self.number, steps, value, None, 0, None, 0)
        array, mask = cast(Floats, np.empty(shape, self.dtype)), np.empty(mask_shape, np.bool_)
        _pad(self.owner.handle, self.number, steps, value, array.ctypes.data, size, mask.ctypes.data, mask.size)
        return Padded(array, mask)

    def padded_indices(self, value: int, length: int | None) -> PaddedIndices:
        """See :meth:`StreamMinibatch.padded_indices`."""
        shape = self._padded_shape(length)
        value = whole("What is put after sequences", value, -(2**31), 2**31 - 1)
        array, mask = np.empty(shape, np.int32), np.empty(shape, np.bool_)
        places = array.ctypes.data, array.size, mask.ctypes.data, mask.size
        _pad_indices(self.owner.handle, self.number, shape[1], value, *places)
        return PaddedIndices(array, mask)

    def _padded_shape(self, length: int | None) -> tuple[int, int]:
        """Sequences, and the length that they are filled up to."""
        sequences: int = self.part.sequences
        longest: int = self.part.longest
        return sequences, longest if length is None else whole("The length", length)

    def mask(self) -> npt.NDArray[np.bool_]:
        """See :meth:`StreamMinibatch.padded_mask`."""
        offsets = np.empty(self.part.sequences + 1, np.int32)
        if self.part.sequences:
            _pack(self.owner.handle, self.number, None, 0, offsets.ctypes.data, offsets.size)
        return np.arange(self.part.longest) < np.diff(offsets)[:, np.newaxis]

    def packed(self) -> Packed:
        """See :meth:`StreamMinibatch.packed`."""
        part = self.part
        samples, size = part.samples, part.samples * part.sample_size
        offsets = np.empty(part.sequences + 1, np.int32)
        if part.storage == 0 and part.is_packed:
            _pack(self.owner.handle, self.number, None, 0, offsets.ctypes.data, offsets.size)
            return Packed(self._values((samples, *self.shape)), offsets, part.longest)
        if part.storage != 0 and size > _MOST_DENSIFIED:
            # An error, which the library explains.
            _pack(self.owner.handle, self.number, np.empty(1, self.dtype).ctypes.data, 1, None, 0)
        values = cast(Floats, np.empty((samples, *self.shape), self.dtype))
        _pack(self.owner.handle, self.number, values.ctypes.data, size, offsets.ctypes.data, offsets.size)
        return Packed(values, offsets, part.longest)

    def packed_indices(self) -> PackedIndices:
        """See :meth:`StreamMinibatch.packed_indices`."""
        part = self.part
        values, offsets = np.empty(part.samples, np.int32), np.empty(part.sequences + 1, np.int32)
        places = values.ctypes.data, values.size, offsets.ctypes.data, offsets.size
        _pack_indices(self.owner.handle, self.number, *places)
        return PackedIndices(values, offsets, part.longest)

    def canonical(self, sparse: Sparse) -> Sparse:
        """See :meth:`StreamMinibatch.canonical`; ``sparse`` has the values in the data's order."""
        data, indices, indptr, shape = sparse
        if _is_canonical(indices, indptr):
            return sparse
        values, places = cast(Floats, np.empty(len(data), self.dtype)), np.empty(len(data), np.int32)
        offsets, count = np.empty(len(indptr), np.int32), c_size_t()
        rows = offsets.ctypes.data, offsets.size
        _canonical(
            self.owner.handle, self.number, values.ctypes.data, places.ctypes.data, len(data), *rows, byref(count)
        )
        # Not views: what was added up leaves room at the end that a view would keep.
        return Sparse(values[: count.value].copy(), places[: count.value].copy(), offsets, shape)

    def _values(self, shape: tuple[int, ...]) -> Floats:
        """The first values of the minibatch where they lie."""
        return cast(Floats, view(self.owner, self.part.values, shape, self.dtype))
