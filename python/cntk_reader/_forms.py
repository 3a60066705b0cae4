"""The forms of a minibatch's sequences: padded, packed, indices, bags."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._types import Values


class Padded(NamedTuple):
    """Sequences padded to one length.

    * ``array``: (sequences, length, *shape of a sample)
    * ``mask``: (sequences, length), true where there is a sample
    """

    array: Values
    mask: npt.NDArray[np.bool_]


class PaddedIndices(NamedTuple):
    """Indices of one-hot samples, padded to one length.

    * ``array``: (sequences, length), int32 or int64
    * ``mask``: (sequences, length), true where there is a sample
    """

    array: npt.NDArray[np.int32]
    mask: npt.NDArray[np.bool_]


class Packed(NamedTuple):
    """Concatenated sequences: sequence i is ``values[offsets[i]:offsets[i + 1]]``.

    The offsets are the ``cu_seqlens`` of variable-length attention.

    * ``values``: (samples, *shape of a sample)
    * ``offsets``: (sequences + 1,), int32
    * ``longest``: samples of the longest sequence
    """

    values: Values
    offsets: npt.NDArray[np.int32]
    longest: int


class PackedIndices(NamedTuple):
    """Concatenated indices of one-hot samples: sequence i is ``values[offsets[i]:offsets[i + 1]]``.

    * ``values``: (samples,), int32 or int64
    * ``offsets``: (sequences + 1,), int32
    * ``longest``: samples of the longest sequence
    """

    values: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int32]
    longest: int


class Sparse(NamedTuple):
    """A CSR matrix with one row per column of the layout.

    Row r has the values from ``indptr[r]`` to ``indptr[r + 1]``. Rows of gaps are empty. Indices
    have the order of the data: they may be unsorted, and repeated indices add up. In
    :meth:`StreamMinibatch.canonical` they are strictly ascending in each row.

    * ``data``: (stored values,)
    * ``indices``: (stored values,), int32: the position of each value in its sample
    * ``indptr``: (steps * lanes + 1,), int32
    * ``shape``: (steps * lanes, values of a sample)
    """

    data: Values
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int32]
    shape: tuple[int, int]


class Bags(NamedTuple):
    """Samples of weighted indices: sample s has the entries from ``offsets[s]`` to
    ``offsets[s + 1]``.

    * ``indices``: (entries,), int32 or int64
    * ``offsets``: (samples + 1,), int32
    * ``weights``: (entries,), the values; None if all are 1
    * ``sequence_offsets``: (sequences + 1,), int32: sequence i has the samples from
      ``sequence_offsets[i]`` to ``sequence_offsets[i + 1]``
    """

    indices: npt.NDArray[np.int32 | np.int64]
    offsets: npt.NDArray[np.int32]
    weights: Values | None
    sequence_offsets: npt.NDArray[np.int32]
