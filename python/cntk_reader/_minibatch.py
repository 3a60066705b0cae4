"""Minibatches: NumPy arrays and SciPy matrices over the library's memory, without copies.

A minibatch's memory is given back when neither the :class:`Minibatch` nor any array made from it is alive any more. A minibatch
belongs to the program alone, so its values are writable, and frameworks take them over without a copy. The library reads them
again only for the forms of sequences of the same minibatch. Records and keys are read-only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from ctypes import Array as CArray
from ctypes import byref, c_size_t, c_void_p, create_string_buffer, sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._cntk_names import MinibatchNames, StreamNames
from ._explain import Text, declares, explained, unknown, whole
from ._forms import Forms, Packed, PackedIndices, Padded, PaddedIndices, Sparse
from ._memory import Owner, view
from ._rules import FLAG, TEXT, WHOLE, Maybe, Real, Whole, Within
from ._types import Array, Floats, FloatType

if TYPE_CHECKING:
    import jax
    import torch
    from jax.experimental.sparse import BCSR
    from scipy.sparse import csr_array, csr_matrix

_describe = lib.checked("minibatch_describe_streams", quick=True)
_key_text = lib.checked("minibatch_get_key_text")

_FLOAT, _DOUBLE, _INT = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)
_KEY: np.dtype[np.uint64] = np.dtype(np.uint64)
#: What the library fills in; copying it is faster than making it anew.
_INFO = lib.MinibatchInfo()


@functools.lru_cache(maxsize=64)
def _parts(count: int) -> CArray[lib.StreamMinibatch]:
    """What the library fills in for this number of streams, to be copied like :data:`_INFO`."""
    parts = (lib.StreamMinibatch * count)()
    if count:
        parts[0].struct_size = sizeof(lib.StreamMinibatch)
    return parts


#: Layout of a record: the sequence's number (or GAP), its lane, and the steps where it begins and ends.
RECORD = np.dtype([("sequence", "u8"), ("lane", "u8"), ("begin", "i8"), ("end", "u8")])
GAP = lib.GAP


def _is_dtype(name: str, value: object) -> object:
    try:
        dtype = np.dtype(cast("npt.DTypeLike", value))
    except TypeError:
        dtype = None
    # A type of NumPy is equal to None, which stands for float64 there.
    if value is None or dtype is None or dtype not in (_FLOAT, _DOUBLE):
        raise ValueError(f"{name} has to be float32 or float64, and is {value!r}.")
    return value


def _is_sample_shape(name: str, value: object) -> object:
    sizes = value if isinstance(value, (tuple, list)) else (value,)
    # Sizes that are impossible are an error where the source is made.
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
)
@dataclass(frozen=True)
class StreamInformation(StreamNames):
    """Describes a stream of a user's deserializer or of a source.

    ``shape`` is that of one sample in NumPy's order, the last axis varying fastest; ``()`` is a scalar. ``is_binary``: samples are
    four opaque bytes each, as those of lattices are; streams of users are never binary.

    * ``name``: what minibatches have it by
    * ``stream_id``: its number, from 0
    * ``storage_format``: "dense" or "sparse"
    * ``dtype``: float32 or float64
    * ``shape``: of a sample
    * ``defines_mb_size``: minibatch sizes count its samples
    * ``is_binary``: samples are opaque bytes, such as lattices
    """

    name: str
    stream_id: int
    storage_format: str
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


def _to_jax(array: Array) -> jax.Array:
    import jax
    from jax import numpy
    from jax.dlpack import from_dlpack

    if jax.default_backend() == "cpu":
        shared: jax.Array = from_dlpack(array)
        return shared
    # DLPack would leave it in the processor's memory and tie it to the processor, and JAX computes where its arguments are.
    return numpy.asarray(array)


#: Why a minibatch does not go to another process.
_NOT_PICKLED = (
    "A minibatch cannot be pickled, nor sent to another process: it lies in the library's memory. Send what is made of it, "
    "such as stream.to_torch() or stream.asarray()."
)


class StreamMinibatch(MinibatchNames):
    """One stream's part of a minibatch.

    It has ``steps`` times ``lanes`` columns, each one sample; step t of lane s is column ``t * lanes + s``. Sequences lie
    in the lanes; columns without data are gaps, and hold zeros.

    Of a binary stream (``info.is_binary``), such as lattices, each sample is four opaque bytes, and in minibatches of whole
    sequences each sequence has a lane of its own in which its bytes are next to each other: step t of lane s is then
    column ``s * steps + t``.

    The forms of sequences (:meth:`padded`, :meth:`packed`, :meth:`as_list`, and with indices) leave out gaps. They have the
    sequences in the order of :attr:`Minibatch.keys_of_sequences`, in all streams. Of a truncated sequence they have the part that
    this minibatch has.
    """

    def __init__(
        self, owner: Owner, info: StreamInformation, part: lib.StreamMinibatch, end_of_sweep: bool = False
    ) -> None:
        self._owner = owner
        #: Whether a sweep ends with the minibatch.
        self.end_of_sweep = end_of_sweep
        self._part = part
        self.info = info

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_PICKLED)

    @property
    def steps(self) -> int:
        """Steps of each lane."""
        return self._part.steps  # type: ignore[no-any-return]

    @property
    def lanes(self) -> int:
        """Lanes, that is parallel sequences of the layout."""
        return self._part.lanes  # type: ignore[no-any-return]

    @property
    def num_samples(self) -> int:
        """Samples, without gaps."""
        return self._part.samples  # type: ignore[no-any-return]

    @property
    def num_sequences(self) -> int:
        """Sequences that have samples here."""
        return self._part.sequences  # type: ignore[no-any-return]

    @property
    def longest(self) -> int:
        """Samples of the longest sequence."""
        return self._part.longest  # type: ignore[no-any-return]

    @property
    def is_sparse(self) -> bool:
        """Whether the values are sparse in this minibatch. Truncated minibatches have sparse streams dense."""
        return self._part.storage == 1  # type: ignore[no-any-return]

    @property
    def dtype(self) -> FloatType:
        """Type of the values."""
        return _FLOAT if self._part.element == 1 else _DOUBLE

    def _floats(self, *shape: int) -> Floats:
        return cast(Floats, view(self._owner, self._part.values, shape, self.dtype))

    def _ints(self, address: int | None, count: int) -> npt.NDArray[np.int32]:
        return view(self._owner, address, (count,), _INT)

    @property
    def records(self) -> npt.NDArray[np.void]:
        """Which columns belong to which sequence, of dtype :data:`RECORD`; gaps included. A read-only view."""
        return view(self._owner, self._part.records, (self._part.record_count,), RECORD, False)

    @property
    def array(self) -> Floats:
        """Dense data, of shape (steps, lanes, *shape of a sample). A view, also where lanes come one after the other."""
        part = self._part
        if part.storage == 1:
            raise TypeError(
                f"The stream '{self.info.name}' is sparse: use .sparse or .csr, .padded(), .packed(), .indices() if it is "
                "one-hot, or .asarray()."
            )
        if part.sequence_major:
            return self._floats(part.lanes, part.steps, *self.info.shape).swapaxes(0, 1)
        return self._floats(part.steps, part.lanes, *self.info.shape)

    @property
    def sparse(self) -> Sparse:
        """Sparse data as the arrays of a CSR matrix, with one row for each column of the layout. Views."""
        part = self._part
        if part.storage != 1:
            raise TypeError(f"The stream '{self.info.name}' is dense: use .array, .padded() or .packed().")
        return Sparse(
            self._floats(part.value_count),
            self._ints(part.indices, part.value_count),
            self._ints(part.column_offsets, part.columns + 1),
            (part.columns, part.sample_size),
        )

    @property
    def csr(self) -> csr_matrix:
        """Sparse data as SciPy's ``csr_matrix``, over the minibatch's own arrays: see :class:`Sparse`, and for another order
        :meth:`canonical`.

        ``csr.T`` is CNTK's CSC matrix, without copies too.
        """
        return self._matrix(*self.sparse[:3])

    def _matrix(self, values: Floats, indices: npt.NDArray[np.int32], starts: npt.NDArray[np.int32]) -> csr_matrix:
        from scipy.sparse import csr_matrix

        shape = (len(starts) - 1, self._part.sample_size)
        return csr_matrix((values, indices, starts), shape=shape, copy=False)

    def to_scipy(self) -> csr_array:
        """Sparse data as SciPy's ``csr_array`` (steps * lanes, values of a sample), over the minibatch's own arrays."""
        from scipy.sparse import csr_array

        data, indices, indptr, shape = self.sparse
        return csr_array((data, indices, indptr), shape=shape, copy=False)

    def canonical(self) -> Sparse:
        """Sparse data as :attr:`sparse` has them, with ascending indices in each row, each once: for libraries that search indices.

        Values of an index that a sample has more than once add up. Views where the data are so already, else copies.
        """
        return self._forms.canonical(self.sparse)

    def to_torch(self) -> torch.Tensor:
        """The data as a tensor of PyTorch over the minibatch's own memory.

        Dense: (steps, lanes, *shape of a sample). Sparse: a CSR tensor (steps * lanes, values of a sample) of :meth:`canonical`, because
        PyTorch needs ascending indices, each once.
        """
        import torch

        if not self.is_sparse:
            return torch.from_numpy(self.array)
        data, indices, indptr, shape = self.canonical()
        offsets, places, values = (torch.from_numpy(part) for part in (indptr, indices, data))
        return torch.sparse_csr_tensor(offsets, places, values, size=shape, check_invariants=False)

    def to_jax(self) -> jax.Array | BCSR:
        """The data as an array of JAX (steps, lanes, *shape of a sample), or sparse as BCSR (steps * lanes, values of a sample).

        On the device that JAX uses by default. Where that is the processor, a dense array in single precision lies in the minibatch's
        own memory: do not write there any more. Others are copied by JAX, because it wants an alignment that the parts of sparse data
        do not have, and makes double precision single unless ``jax_enable_x64`` is set.
        """
        if not self.is_sparse:
            return _to_jax(self.array)
        from jax.experimental.sparse import BCSR

        data, indices, indptr, shape = self.canonical()
        parts = _to_jax(data), _to_jax(indices), _to_jax(indptr)
        return BCSR(parts, shape=shape, indices_sorted=True, unique_indices=True)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        array = np.asarray(self.array, dtype)
        if copy is False and not np.shares_memory(array, self.array):
            raise ValueError(f"The values of '{self.info.name}' are {self.dtype}: another type needs a copy.")
        return array.copy() if copy and np.shares_memory(array, self.array) else array

    def __dlpack__(self, **options: object) -> object:
        """A capsule of DLPack with :attr:`array`, for ``torch.from_dlpack`` and others. NumPy makes it: versioned from 2.1 on.

        ``options`` are those of the standard: ``stream``, ``max_version``, ``dl_device``, ``copy``.
        """
        return self.array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    def asarray(self) -> Floats:
        """All data, dense, of shape (steps, lanes, *shape of a sample): a view of dense data, a copy of sparse ones."""
        if not self.is_sparse:
            return self.array
        return self.csr.toarray().reshape(self.steps, self.lanes, *self.info.shape)  # type: ignore[no-any-return]

    @property
    def _forms(self) -> Forms:
        return Forms(self._owner, self.info.stream_id, self._part, self.info.shape, self.dtype)

    @declares(value=Real(), length=Maybe(WHOLE))
    def padded(self, value: float = 0, length: int | None = None) -> Padded:
        """The sequences side by side, filled up with ``value`` to the longest, or to ``length``, which must not be less.

        ``array`` (sequences, length, *shape of a sample) and ``mask`` (sequences, length), true where there is a sample. Sparse
        samples become dense; for one-hot samples of many values see :meth:`padded_indices`. The array is a copy, except of dense
        sequences that all have this length and lie one after the other: then it is a view.
        """
        return self._forms.padded(value, length)

    def packed(self) -> Packed:
        """The samples of one sequence after the other: ``values``, ``offsets`` and ``longest``.

        ``values`` (samples, *shape of a sample), int32 ``offsets`` (sequences + 1,). Sparse samples become dense. The values are a
        view where the minibatch has dense sequences in this way, as with one sample each, and else a copy.

        ``offsets`` are the ``cu_seqlens`` of attention over sequences of different lengths. PyTorch's jagged tensor over the values,
        without a copy of them::

            values, offsets, longest = stream.packed()
            torch.nested.nested_tensor_from_jagged(torch.from_numpy(values), torch.from_numpy(offsets), max_seqlen=longest)
        """
        return self._forms.packed()

    def as_list(self) -> list[Floats]:
        """The sequences, each an array (samples, *shape of a sample): views of the values of :meth:`packed`."""
        values, offsets, _ = self.packed()
        bounds = offsets.tolist()
        return [values[begin:end] for begin, end in zip(bounds, bounds[1:])]

    def indices(self) -> npt.NDArray[np.int32]:
        """The index of each one-hot sample, of shape (samples,): labels as a loss wants them, ids as an embedding wants them.

        In the order of :meth:`packed`. The stream may be sparse or dense; samples that are not one-hot are an error.
        """
        return self.packed_indices().values

    def padded_mask(self) -> npt.NDArray[np.bool_]:
        """The mask of :meth:`padded` alone: (sequences, samples of the longest), true where there is a sample."""
        return self._forms.mask()

    @declares(value=Whole(-(2**31), 2**31 - 1), length=Maybe(WHOLE))
    def padded_indices(self, value: int = 0, length: int | None = None) -> PaddedIndices:
        """The indices of one-hot samples in the form of :meth:`padded`: int32 ``array`` and ``mask`` (sequences, length)."""
        return self._forms.padded_indices(value, length)

    def packed_indices(self) -> PackedIndices:
        """The indices of one-hot samples in the form of :meth:`packed`: ``values`` (samples,), ``offsets``, ``longest``."""
        return self._forms.packed_indices()

    @declares(variable=Within("for CNTK's programs; not needed"))
    def as_sequences(self, variable: object = None) -> list[Floats | csr_matrix]:
        """The sequences in the minibatch's order, each an array (samples, *shape of a sample) or a matrix (samples, values).

        Dense ones are views. So are the values of sparse ones, if their samples are next to each other (minibatches of
        one lane or one step); else they are copied. Of a truncated sequence it is the part that this minibatch has.
        ``variable`` is for CNTK's programs, and not needed.
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
        values, indices, starts, _ = self.sparse
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


_NO_DATA = (
    "The minibatch has no data: check it with `if minibatch:`. Loops deliver one only to workers in lockstep, whose share may be "
    "empty."
)


class Minibatch(Mapping[str, StreamMinibatch]):
    """A minibatch: streams by name or by :class:`StreamInformation`. Without data it is empty, and false.

    It may outlive its source, and be shared between threads.
    """

    def __init__(self, handle: c_void_p, streams: dict[str, StreamInformation]) -> None:
        self._owner = Owner(handle)
        self._info = info = lib.MinibatchInfo.from_buffer_copy(_INFO)
        count = len(streams)
        empty = _parts(count)
        self._parts: CArray[lib.StreamMinibatch] = type(empty).from_buffer_copy(empty)
        _describe(handle, byref(info), self._parts, count)
        self.end_of_sweep: bool = info.end_of_sweep != 0
        self.end_of_epoch: bool = info.end_of_epoch != 0
        #: It is a step of training: it has data, or workers in lockstep take part in it, some of them without data.
        self.is_step: bool = info.is_step != 0
        self._infos = streams if info.stream_count else {}

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_PICKLED)

    def __getitem__(self, stream: str | StreamInformation) -> StreamMinibatch:
        name = stream.name if isinstance(stream, StreamInformation) else stream
        info = self._infos.get(name)
        if info is None:
            raise KeyError(Text(self._explain(name)))
        return StreamMinibatch(self._owner, info, self._parts[info.stream_id], self.end_of_sweep)

    def _explain(self, name: object) -> str:
        if not self._infos:
            return _NO_DATA
        return f"{unknown('stream', name, self._infos)} For example: minibatch[{next(iter(self._infos))!r}]"

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    @property
    def keys_of_sequences(self) -> npt.NDArray[np.uint64]:
        """The key of each sequence as a number, by the sequence's number in the records. A read-only view."""
        return view(self._owner, self._info.keys, (self._info.key_count,), _KEY, False)

    @declares(sequence=WHOLE)
    def key_text(self, sequence: int) -> str:
        """The key of a sequence as CNTK shows it."""
        sequence = whole("The number of a sequence", sequence)
        length = c_size_t()
        _key_text(self._owner.handle, sequence, None, 0, byref(length))
        text = create_string_buffer(length.value + 1)
        _key_text(self._owner.handle, sequence, text, len(text), byref(length))
        return text.raw[: length.value].decode("utf-8", "replace")

    def __repr__(self) -> str:
        parts = ", ".join(repr(part) for part in self.values())
        return f"<Minibatch: {parts or 'no data'}{', end of sweep' if self.end_of_sweep else ''}>"
