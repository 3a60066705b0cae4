"""Streams and minibatches as CNTK 2.7's Python package presents them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._explain import declares
from .._minibatch import StreamInformation as _StreamInformation
from .._rules import Within
from .._types import Array, DType, Values, element_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from .._minibatch import StreamMinibatch

#: CNTK's numbers of storage formats and element types.
_STORAGE = {"dense": 0, "sparse": 1}
_ELEMENT = {"float32": 1, "float64": 2, "float16": 4, "int16": 6}

#: Values of CNTK's masks: a column past the end of a sequence, within a sequence, and its first
#: column.
_GAP, _VALID, _BEGIN = 0, 1, 2


class SampleLayout(tuple):  # type: ignore[type-arg]
    """A shape, like CNTK's ``NDShape``."""

    __slots__ = ()

    def dimensions(self) -> tuple[int, ...]:
        """Returns the dimensions."""
        return tuple(self)


class StreamInformation(_StreamInformation):
    """A stream of a user's deserializer or of a source, also under CNTK's names."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample."""
        return self.shape

    @property
    def m_name(self) -> str:
        """The name."""
        return self.name

    @property
    def m_id(self) -> int:
        """The number of the stream."""
        return self.stream_id

    @property
    def m_storage_format(self) -> int:
        """0: dense, 1: sparse."""
        return _STORAGE[self.storage_format]

    @property
    def m_element_type(self) -> int:
        """1: float32, 2: float64, 4: float16, 6: int16; 0: a type that CNTK does not have."""
        return _ELEMENT.get(str(element_of(self.dtype)), 0)

    @property
    def m_sample_layout(self) -> SampleLayout:
        """The shape of a sample, with ``dimensions()``."""
        return SampleLayout(self.shape)

    @property
    def m_defines_mb_size(self) -> bool:
        """Whether minibatch sizes count its samples."""
        return self.defines_mb_size

    @property
    def m_is_binary(self) -> bool:
        """Whether samples are opaque bytes."""
        return self.is_binary

    def as_string(self) -> str:
        """Returns the name and the shape."""
        return f"{self.name}([{' x '.join(map(str, self.shape))}])"


class Value:
    """The values of a stream in a minibatch, like CNTK's ``Value``: sequences padded with zeros."""

    def __init__(self, stream: StreamMinibatch) -> None:
        self._stream = stream

    @property
    def shape(self) -> tuple[int, ...]:
        """(sequences, samples of the longest, *shape of a sample)."""
        stream = self._stream
        return stream.num_sequences, stream.longest, *stream.info.shape

    @property
    def dtype(self) -> DType:
        """Type of the values."""
        return self._stream.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the values are sparse."""
        return self._stream.is_sparse

    @property
    def mask(self) -> npt.NDArray[np.int8]:
        """The mask (sequences, samples of the longest).

        It is 2 at the beginning of a sequence, 1 at its other samples, and 0 past its end.
        """
        present = self._stream.padded_mask()
        mask = np.where(present, _VALID, _GAP).astype(np.int8)
        mask[:, :1] = np.where(present[:, :1], _BEGIN, _GAP)
        return mask

    @property
    def masked_count(self) -> int:
        """Number of columns past the ends of sequences."""
        return int((self.mask == _GAP).sum())

    def asarray(self) -> Values:
        """Returns the values, dense, of :attr:`shape`. Past the end of a sequence they are 0."""
        return self._stream.padded().array

    @declares(variable=Within("not needed here"))
    def as_sequences(self, variable: object = None) -> list[Values | csr_matrix]:
        """Returns the sequences. ``variable`` is ignored."""
        return self._stream.as_sequences()

    def __len__(self) -> int:
        return self._stream.num_sequences

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self.asarray(), dtype)

    def __repr__(self) -> str:
        return f"Value([{' x '.join(map(str, self.shape))}], CPU)"


class MinibatchData:
    """The data of a stream in a minibatch."""

    def __init__(self, stream: StreamMinibatch) -> None:
        self._stream = stream

    @property
    def data(self) -> Value:
        """The values, with CNTK's ``asarray()``, ``shape`` and ``mask``: one row per sequence."""
        return Value(self._stream)

    @property
    def mask(self) -> npt.NDArray[np.int8]:
        """See :attr:`Value.mask`."""
        return self.data.mask

    @property
    def shape(self) -> tuple[int, ...]:
        """See :attr:`Value.shape`."""
        return self.data.shape

    @property
    def is_sparse(self) -> bool:
        """Whether the values are sparse."""
        return self._stream.is_sparse

    @property
    def num_samples(self) -> int:
        """Samples in the minibatch."""
        return self._stream.num_samples

    @property
    def num_sequences(self) -> int:
        """Sequences in the minibatch."""
        return self._stream.num_sequences

    @property
    def end_of_sweep(self) -> bool:
        """Whether the minibatch ends a sweep."""
        return self._stream.end_of_sweep

    @property
    def number_of_samples(self) -> int:
        """See :attr:`num_samples`."""
        return self._stream.num_samples

    @property
    def number_of_sequences(self) -> int:
        """See :attr:`num_sequences`."""
        return self._stream.num_sequences

    @property
    def sweep_end(self) -> bool:
        """See :attr:`end_of_sweep`."""
        return self._stream.end_of_sweep

    def as_string(self) -> str:
        """Returns a line that describes it."""
        return (
            f"MinibatchData(data={self.data!r}, samples={self._stream.num_samples}, seqs={self._stream.num_sequences})"
        )

    def asarray(self) -> Values:
        """See :meth:`Value.asarray`."""
        return self.data.asarray()

    @declares(variable=Within("not needed here"))
    def as_sequences(self, variable: object = None) -> list[Values | csr_matrix]:
        """See :meth:`Value.as_sequences`."""
        return self.data.as_sequences(variable)

    def __len__(self) -> int:
        return self.num_sequences

    def __repr__(self) -> str:
        return self.as_string()
