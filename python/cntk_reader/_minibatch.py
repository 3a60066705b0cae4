"""Minibatches: NumPy arrays and SciPy matrices over the library's memory, without copies.

A minibatch's memory is released once the :class:`Minibatch` and all arrays made from it are gone.
Only the program uses it, so its values are writable, and frameworks take them over without a copy.
The library reads them again only for the sequence forms of the same minibatch. Records and keys are
read-only.

The classes are those of the extension module; this module adds the methods that use other
libraries.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from . import _native
from ._explain import Text, declares, explained, unknown, whole
from ._rules import FLAG, TEXT, WHOLE, Maybe, Within
from ._types import ELEMENTS, GAP, RECORD, Array, Values, element_of

if TYPE_CHECKING:
    import jax
    import torch
    from jax.experimental.sparse import BCSR
    from scipy.sparse import csr_array, csr_matrix

__all__ = ["GAP", "RECORD", "Minibatch", "StreamInformation", "StreamMinibatch"]

Minibatch = _native.Minibatch
StreamMinibatch = _native.StreamMinibatch

Extension = TypeVar("Extension", bound=type)


def _extends(native: type) -> Callable[[Extension], Extension]:
    """Adds the attributes of a class to a class of the extension module."""

    def add(extension: Extension) -> Extension:
        for base in reversed(extension.__mro__[:-1]):
            for name, value in vars(base).items():
                if name not in ("__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__slots__"):
                    setattr(native, name, value)
        return extension

    return add


def _is_dtype(name: str, value: object) -> object:
    # NumPy takes None for float64.
    if value is None or element_of(cast("npt.DTypeLike", value)) is None:
        raise ValueError(f"{name} must be one of {', '.join(ELEMENTS)}, not {value!r}.")
    return value


def _is_sample_shape(name: str, value: object) -> object:
    sizes = value if isinstance(value, (tuple, list)) else (value,)
    # Impossible sizes are an error when the source is created.
    return tuple(whole(name, size, -(2**200), 2**200) for size in sizes)


@explained(
    "StreamInformation('features', 0, 'dense', np.float32, (3,))",
    name=TEXT,
    stream_id=WHOLE,
    storage_format=TEXT,
    dtype=_is_dtype,
    shape=_is_sample_shape,
    defines_mb_size=FLAG,
    is_binary=FLAG,
    classes=Maybe(WHOLE),
)
@dataclass(frozen=True)
class StreamInformation:
    """Describes a stream of a user's deserializer or of a source.

    * ``name``: name of the stream in minibatches
    * ``stream_id``: its number, from 0
    * ``storage_format``: "dense" or "sparse"
    * ``dtype``: float32, float64, float16, bfloat16, uint8, int16, int32, int64 or bool; sparse
      streams: float32 or float64
    * ``shape``: shape of a sample in NumPy's order, the last axis varying fastest; ``()`` is a
      scalar
    * ``defines_mb_size``: whether minibatch sizes count its samples
    * ``is_binary``: whether samples are four opaque bytes each, such as those of lattices; never in
      users' streams
    * ``classes``: with ``ids``: number of classes
    """

    name: str
    stream_id: int
    storage_format: str
    dtype: npt.DTypeLike
    shape: tuple[int, ...]
    defines_mb_size: bool = False
    is_binary: bool = False
    classes: int | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether the stream is sparse."""
        return self.storage_format == "sparse"

    @property
    def sample_size(self) -> int:
        """Number of values of a sample."""
        size = 1
        for dimension in self.shape:
            size *= dimension
        return size


def described(info: StreamInformation) -> str:
    """Returns a stream's name, type and shape in a few words."""
    dtype = info.dtype if isinstance(info.dtype, str) else np.dtype(info.dtype).name
    shape = "?" if any(size > _MOST_DIMENSION for size in info.shape) else str(info.shape)
    classes = "" if info.classes is None else f", ids of {info.classes}"
    return f"{info.name} {shape} {'sparse ' if info.is_sparse else ''}{dtype}{classes}"


#: Larger dimensions stand for a shape that is not known yet.
_MOST_DIMENSION = 2**63


def to_jax_array(array: Array, shared: object = None) -> jax.Array:
    """Converts an array to JAX, through the DLPack of ``shared`` if NumPy lacks the type."""
    import jax
    from jax import numpy
    from jax.dlpack import from_dlpack

    if jax.default_backend() == "cpu":
        made: jax.Array = from_dlpack(array if shared is None else shared)
        return made
    # DLPack would leave the array in CPU memory and commit it to the CPU, but JAX computes where
    # its arguments are.
    return numpy.asarray(array)


#: The message of the error about pickling.
_NOT_PICKLED = (
    "A minibatch cannot be pickled or sent to another process: it uses the library's memory. Send a result computed from "
    "it, such as stream.to_torch() or stream.asarray()."
)


if TYPE_CHECKING:
    # The classes that are extended.
    _Stream = StreamMinibatch
    _Minibatch = Minibatch
else:
    _Stream = object
    _Minibatch = object


def _scipy_sparse() -> Any:
    """Returns scipy.sparse, which the package does not require."""
    try:
        import scipy.sparse
    except ModuleNotFoundError as error:
        message = "SciPy's matrices need SciPy: pip install scipy. Without it, use .sparse, .indices() or .padded()."
        raise ModuleNotFoundError(message, name=error.name) from None
    return scipy.sparse


@_extends(StreamMinibatch)
class _StreamExtension(_Stream):
    """Methods of :class:`StreamMinibatch` that use other libraries."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_PICKLED)

    @property
    def csr(self) -> csr_matrix:
        """Sparse data as SciPy's ``csr_matrix``, over the minibatch's own arrays.

        See :class:`Sparse`, and :meth:`canonical` for sorted indices. ``csr.T`` is CNTK's CSC
        matrix, also without copies.
        """
        return self._matrix(*self.sparse[:3])

    def _matrix(self, values: Values, indices: npt.NDArray[np.int32], starts: npt.NDArray[np.int32]) -> csr_matrix:
        csr_matrix = _scipy_sparse().csr_matrix
        shape = (len(starts) - 1, self.info.sample_size)
        return csr_matrix((values, indices, starts), shape=shape, copy=False)

    def to_scipy(self) -> csr_array:
        """Returns sparse data as SciPy's ``csr_array``, over the minibatch's own arrays.

        Its shape is (steps * lanes, values of a sample).
        """
        csr_array = _scipy_sparse().csr_array
        data, indices, indptr, shape = self.sparse
        return csr_array((data, indices, indptr), shape=shape, copy=False)

    def to_torch(self) -> torch.Tensor:
        """Returns the data as a PyTorch tensor over the minibatch's own memory.

        Dense: (steps, lanes, *shape of a sample). Sparse: a CSR tensor (steps * lanes, values of a
        sample) of :meth:`canonical`, because PyTorch requires strictly ascending indices.
        """
        import torch

        if not self.is_sparse:
            # NumPy may lack bfloat16, and PyTorch does not accept it from NumPy.
            is_brain = self._element == "bfloat16"
            return torch.from_numpy(self._bits).view(torch.bfloat16) if is_brain else torch.from_numpy(self.array)
        data, indices, indptr, shape = self.canonical()
        offsets, places, values = (torch.from_numpy(part) for part in (indptr, indices, data))
        return torch.sparse_csr_tensor(offsets, places, values, size=shape, check_invariants=False)

    def to_torch_bag(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Returns sparse data as ``torch.nn.EmbeddingBag`` takes them: indices, offsets, weights.

        Each sequence is a bag, with the entries of all its samples. The indices and the offsets
        (sequences,), at which bags begin, are int64. The weights are the values, or None if all are
        1; only ``mode="sum"`` takes weights::

            sums = torch.nn.EmbeddingBag(1000, 16, mode="sum")(*stream.to_torch_bag())

        :meth:`bags` has a bag for each sample.
        """
        import torch

        indices, offsets, weights, sequence_offsets = self.bags(np.int64)
        begins = torch.from_numpy(offsets[sequence_offsets[:-1]].astype(np.int64))
        return torch.from_numpy(indices), begins, None if weights is None else torch.from_numpy(weights)

    def to_jax(self) -> jax.Array | BCSR:
        """Returns the data as a JAX array, or sparse data as BCSR.

        Dense: (steps, lanes, *shape of a sample). Sparse: (steps * lanes, values of a sample). The
        arrays are on JAX's default device. On a CPU, a dense single-precision array shares the
        minibatch's own memory: do not write there any more. JAX copies all others, because it
        requires an alignment that parts of sparse data lack, and converts 64-bit types to 32 bits
        unless ``jax_enable_x64`` is set.
        """
        if not self.is_sparse:
            return to_jax_array(self.array, self if self._element == "bfloat16" else None)
        from jax.experimental.sparse import BCSR

        data, indices, indptr, shape = self.canonical()
        parts = to_jax_array(data), to_jax_array(indices), to_jax_array(indptr)
        return BCSR(parts, shape=shape, indices_sorted=True, unique_indices=True)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        array = np.asarray(self.array, dtype)
        if copy is False and not np.shares_memory(array, self.array):
            raise ValueError(f"The values of '{self.info.name}' are {self.dtype}: another type needs a copy.")
        return array.copy() if copy and np.shares_memory(array, self.array) else array

    def __dlpack__(self, **options: object) -> object:
        """Returns a DLPack capsule of :attr:`array`, for ``torch.from_dlpack`` and others.

        NumPy creates it, versioned from NumPy 2.1 on. bfloat16, which NumPy lacks, is supported
        too.

        ``options`` are those of the standard: ``stream``, ``max_version``, ``dl_device``, ``copy``.
        """
        if self._element == "bfloat16":
            return _native.bfloat16_capsule(self._bits.__dlpack__(**options))  # type: ignore[arg-type]
        return self.array.__dlpack__(**options)  # type: ignore[arg-type, misc]

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    def asarray(self) -> Values:
        """Returns all data, dense: a view of dense data, a copy of sparse data.

        The shape is (steps, lanes, *shape of a sample).
        """
        if not self.is_sparse:
            return self.array
        return self.csr.toarray().reshape(self.steps, self.lanes, *self.info.shape)  # type: ignore[no-any-return]

    def as_list(self) -> list[Values]:
        """Returns the sequences as arrays (samples, *shape of a sample), views of :meth:`packed`
        values."""
        values, offsets, _ = self.packed()
        bounds = offsets.tolist()
        return [values[begin:end] for begin, end in zip(bounds, bounds[1:])]

    def as_sequences(self) -> list[Values | csr_matrix]:
        """Returns the sequences in the minibatch's order: arrays, or matrices if the stream is
        sparse.

        An array has the shape (samples, *shape of a sample) and is a view. A matrix has the shape
        (samples, values) and is a copy, with the entries in the data's order as in :meth:`bags`. Of
        a truncated sequence it is the part in this minibatch.
        """
        if self.is_sparse:
            return self._matrices()
        records = self.records
        records = records[records["sequence"] != GAP]
        records = records[np.argsort(records["sequence"], kind="stable")]
        begins = np.maximum(records["begin"], 0).tolist()
        ends = np.minimum(records["end"], self.steps).tolist()
        lanes = records["lane"].tolist()
        array = self.array
        return [array[begin:end, lane] for begin, end, lane in zip(begins, ends, lanes)]

    def _matrices(self) -> list[Values | csr_matrix]:
        """Returns the sequences of a sparse stream: slices of the arrays of :meth:`bags`."""
        indices, offsets, weights, bounds = self.bags()
        if weights is None:
            weights = np.ones(len(indices), self.sparse.data.dtype)
        pattern = self._matrix(weights[:0], offsets[:0], offsets[:1])
        rows, entries = bounds.tolist(), offsets[bounds].tolist()
        sequences: list[Values | csr_matrix] = []
        for begin, end, low, high in zip(rows, rows[1:], entries, entries[1:]):
            # SciPy checks the arrays of each new matrix, which takes ten times as long as the rest.
            matrix = pattern.__class__.__new__(pattern.__class__)
            vars(matrix).update(vars(pattern))
            matrix.data, matrix.indices = weights[low:high], indices[low:high]
            matrix.indptr = offsets[begin : end + 1] - np.int32(low)
            matrix._shape = (end - begin, self.info.sample_size)
            sequences.append(matrix)
        return sequences

    def __repr__(self) -> str:
        return (
            f"<StreamMinibatch: {described(self.info)}; {self.num_sequences} sequences, {self.num_samples} samples in "
            f"{self.steps} steps x {self.lanes} lanes>"
        )


_NO_DATA = (
    "The minibatch has no data: check it with `if minibatch:`. Loops deliver such a minibatch only to workers in lockstep, "
    "whose share may be empty."
)


def explain_unknown(name: object, streams: Mapping[str, StreamInformation] | None) -> str:
    """Returns the text of the error about an unknown stream name. ``None``: the minibatch has no
    data."""
    if not streams:
        return Text(_NO_DATA)
    return Text(f"{unknown('stream', name, streams)} For example: minibatch[{next(iter(streams))!r}]")


@_extends(Minibatch)
class _MinibatchExtension(_Minibatch):
    """The methods of dictionaries."""

    def keys(self) -> KeysView[str]:
        """Returns the names of the streams."""
        return KeysView(self)

    def values(self) -> ValuesView[StreamMinibatch]:
        """Returns the streams."""
        return ValuesView(self)

    def items(self) -> ItemsView[str, StreamMinibatch]:
        """Returns the streams with their names."""
        return ItemsView(self)

    @declares(key=Within("by its own type"), default=Within("any value"))
    def get(self, key: str | StreamInformation, default: object = None, /) -> object:  # type: ignore[override]
        """Returns the stream of this name, or ``default`` if there is none."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, stream: object) -> bool:
        try:
            self[cast(str, stream)]
        except KeyError:
            return False
        return True

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_PICKLED)

    def __repr__(self) -> str:
        parts = "; ".join(f"{described(part.info)} of {part.num_samples} samples" for part in self.values())
        content = f"{len(self.keys_of_sequences)} sequences; {parts}" if parts else "no data"
        end = ", end of epoch" if self.end_of_epoch else ", end of sweep" if self.end_of_sweep else ""
        return f"<Minibatch: {content}{end}>"


Mapping.register(Minibatch)  # pyright: ignore[reportAttributeAccessIssue]
