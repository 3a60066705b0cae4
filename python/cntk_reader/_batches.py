"""Conversion of minibatches to dictionaries of arrays with the batch first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, Literal, Protocol, TypeVar, Union, cast

import numpy as np
import numpy.typing as npt

from ._arrays import ArrayDeserializer
from ._errors import ReaderError, ReaderValueError
from ._explain import unknown
from ._minibatch import Minibatch, StreamInformation, StreamMinibatch
from ._rules import Text, real
from ._source import MinibatchSource
from ._types import GAP, Array, dtype_of

#: The forms of sparse streams.
Form = Literal["ids", "csr", "bag"]
FORMS = ("ids", "csr", "bag")
#: A form for all sparse streams, or forms by name; others have ids.
Sparse = Union[Form, Mapping[str, Form]]
#: A fill value for all streams, or values by name; others have 0.
Padding = Union[float, Mapping[str, float]]

#: Number of streams whose sequences are remembered. Others are examined in each minibatch.
MOST_STREAMS = 256

_FORM = Text(FORMS)

#: An array of a framework.
Tensor = TypeVar("Tensor")


class Numbers(Protocol):
    """A list of numbers of fixed length."""

    def __getitem__(self, place: int, /) -> object:
        """Returns a number."""
        ...

    def __setitem__(self, place: int, value: int, /) -> None:
        """Sets a number."""
        ...


def unknown_numbers() -> npt.NDArray[np.int8]:
    """Returns the numbers of a new converter."""
    return np.full(MOST_STREAMS, -1, np.int8)


def is_sparse_form(name: str, value: object) -> object:
    """The rule for the forms of sparse streams."""
    if isinstance(value, Mapping):
        return {key: _FORM(f"{name}[{key!r}]", form) for key, form in value.items()}
    return _FORM(name, value)


def is_padding(name: str, value: object) -> object:
    """The rule for fill values."""
    if isinstance(value, Mapping):
        return {key: real(f"{name}[{key!r}]", one) for key, one in value.items()}
    return real(name, value)


def are_streams(name: str, value: object) -> object:
    """The rule for names of streams."""
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{name} must be a list of stream names, not {value!r}.")
    for one in value:
        if not isinstance(one, str):
            raise TypeError(f"{name} must be a list of stream names, but it contains {one!r}.")
    return tuple(cast("Collection[str]", value))


def check_convert(convert: object, sparse: Sparse, padding: Padding, sequences: Collection[str] | None) -> None:
    """Refuses options of converters beside ``convert``."""
    if convert is not None and (sparse != "ids" or padding != 0 or sequences is not None):
        raise ValueError(
            "`sparse`, `padding` and `sequences` describe the items that are made without `convert`: omit them, or `convert`."
        )


class Converter(Generic[Tensor]):
    """Converts minibatches. Subclasses create the arrays of a framework.

    ``sequences`` are the streams whose sequences are padded; None: those found from the data.
    ``padded`` has a number for each stream: 1: its sequences are padded, 0: they have one sample
    each, -1: unknown. Processes that share it deliver the same forms.
    """

    #: Type of ids.
    index: npt.DTypeLike = np.int64

    def __init__(self, sparse: Sparse, padding: Padding, sequences: Collection[str] | None, padded: Numbers) -> None:
        self._sparse = sparse
        self._padding = padding
        self._sequences = sequences
        self._padded = padded
        self._is_truncated = False
        #: Whether the data are known to have sequences of several samples.
        self._is_longer = False
        self._infos: Mapping[str, StreamInformation] = {}

    def from_array(self, array: Array) -> Tensor:
        """Converts an array of NumPy."""
        raise NotImplementedError

    def from_stream(self, stream: StreamMinibatch) -> Tensor:
        """Converts a stream in the minibatch's own layout."""
        raise NotImplementedError

    def empty_matrix(self, columns: int, dtype: np.dtype[np.generic]) -> Tensor:
        """Returns a sparse matrix without rows."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_infos": {}}

    def bind(self, source: MinibatchSource) -> None:
        """Learns about the streams of a source."""
        self._infos, self._is_truncated = source.streams, source.is_truncated
        named: list[tuple[str, object]] = []
        for option, value in (("sparse", self._sparse), ("padding", self._padding), ("sequences", self._sequences)):
            if value is not None and not isinstance(value, (str, int, float)):
                named += [(option, name) for name in value]
        for option, name in named:
            if name not in self._infos:
                raise ValueError(f"{option}: {unknown('stream', name, self._infos)}")
        if isinstance(self._sparse, Mapping):
            for name in self._sparse:
                if not self._infos[name].is_sparse:
                    raise ValueError(f"sparse: the stream {name!r} is dense.")
        for name in self._infos:
            for other in (f"{name}_mask", f"{name}_offsets", f"{name}_weights"):
                if other in self._infos:
                    raise ValueError(
                        f"The tensor {other!r} of the stream {name!r} would have the name of another stream: rename one of "
                        "them, or pass `convert`."
                    )
        self._learn(source)

    def _learn(self, source: MinibatchSource) -> None:
        """Records which streams are known to have sequences of several samples, or of one."""
        if self._sequences is not None or self._is_truncated:
            return
        for deserializer in source._recipe.users.values():
            if isinstance(deserializer, ArrayDeserializer):
                for name, has_sequences in deserializer.with_sequences().items():
                    if name in self._infos:
                        self._record(self._infos[name], has_sequences)
        counts = [member.sizes for member in source.members]
        if any(sizes.samples is None or sizes.sequences is None for sizes in counts):
            return
        counted = [info for info in self._infos.values() if info.defines_mb_size] or list(self._infos.values())
        self._is_longer = any(sizes.samples != sizes.sequences for sizes in counts)
        if not self._is_longer or len(counted) == 1:
            for info in counted:
                if self._recorded(info) is None:
                    self._record(info, self._is_longer)

    def _record(self, info: StreamInformation, is_padded: bool) -> None:
        if info.stream_id < MOST_STREAMS:
            self._padded[info.stream_id] = int(is_padded)

    def _recorded(self, info: StreamInformation) -> bool | None:
        number = int(cast("int", self._padded[info.stream_id])) if info.stream_id < MOST_STREAMS else -1
        return None if number < 0 else bool(number)

    def __call__(self, minibatch: Minibatch) -> dict[str, Tensor]:
        """Returns arrays by name."""
        tensors: dict[str, Tensor] = {}
        if not minibatch:
            for info in self._infos.values():
                tensors.update(self._empty(info))
            return tensors
        longest = {name: stream.longest for name, stream in minibatch.items()}
        most = max(longest.values())
        for name, stream in minibatch.items():
            if stream.info.is_binary:
                tensors[name] = self.from_stream(stream)
            elif self._is_truncated:
                tensors.update(self._truncated(name, stream))
            else:
                is_padded = self._has_sequences(name, stream.info, longest[name], most)
                tensors.update(self._whole(name, stream, is_padded))
        return tensors

    def _has_sequences(self, name: str, info: StreamInformation, longest: int, most: int) -> bool:
        """Returns whether the sequences of the stream are padded."""
        known = self._recorded(info) if self._sequences is None else name in self._sequences
        if known is None:
            if most == 1 and self._is_longer and not any(map(self._recorded, self._infos.values())):
                raise ValueError(
                    "The data have sequences of several samples, but in the first minibatch every sequence has one sample. "
                    f"Name the streams whose sequences have several samples: sequences=[{name!r}, ...]."
                )
            known = longest > 1
            self._record(info, known)
        elif longest > 1 and not known:
            reason = "had sequences of one sample before" if self._sequences is None else "is not in `sequences`"
            raise ValueError(
                f"The stream {name!r} has a sequence of {longest} samples, but {reason}. Name all streams whose sequences have "
                f"several samples: sequences=[{name!r}, ...]."
            )
        return known

    def _form(self, info: StreamInformation) -> str:
        if not info.is_sparse:
            return "dense"
        return self._sparse if isinstance(self._sparse, str) else self._sparse.get(info.name, "ids")

    def _fill(self, name: str) -> float:
        return self._padding.get(name, 0) if isinstance(self._padding, Mapping) else self._padding

    def _whole_fill(self, name: str) -> int:
        fill = self._fill(name)
        if int(fill) != fill:
            raise ValueError(
                f"The padding of {name!r} must be a whole number, because its samples are ids, not {fill!r}."
            )
        return int(fill)

    def _whole(self, name: str, stream: StreamMinibatch, is_padded: bool) -> dict[str, Tensor]:
        """Returns the arrays of a stream with whole sequences."""
        form = self._form(stream.info)
        if form == "csr":
            return {name: self.from_stream(stream)}
        if form == "bag":
            return self._bag(name, stream)
        if form == "dense":
            return self._dense(name, stream, is_padded)
        try:
            if not is_padded:
                return {name: self.from_array(stream.indices(self.index))}
            array, mask = stream.padded_indices(self._whole_fill(name), dtype=self.index)
        except ReaderError as error:
            raise _not_ids(name, error) from error
        return {name: self.from_array(array), f"{name}_mask": self.from_array(mask)}

    def _dense(self, name: str, stream: StreamMinibatch, is_padded: bool) -> dict[str, Tensor]:
        if not is_padded:
            return {name: self.from_array(stream.packed().values)}
        array, mask = stream.padded(self._fill(name))
        return {name: self.from_array(array), f"{name}_mask": self.from_array(mask)}

    def _bag(self, name: str, stream: StreamMinibatch) -> dict[str, Tensor]:
        indices, offsets, weights, sequence_offsets = stream.bags(self.index)
        begins = offsets[sequence_offsets[:-1]].astype(self.index)
        if weights is None:
            weights = np.ones(len(indices), stream.info.dtype)
        return {
            name: self.from_array(indices),
            f"{name}_offsets": self.from_array(begins),
            f"{name}_weights": self.from_array(weights),
        }

    def _truncated(self, name: str, stream: StreamMinibatch) -> dict[str, Tensor]:
        """Returns the arrays of a stream with pieces of sequences: (lanes, steps)."""
        form = self._form(stream.info)
        if form == "csr":
            return {name: self.from_stream(stream)}
        if form == "bag":
            raise ValueError(
                f"The stream {name!r} has pieces of sequences, of which bags are not defined: omit truncation_length, or pass "
                f"sparse={{{name!r}: 'csr'}}."
            )
        mask = np.zeros((stream.lanes, stream.steps), np.bool_)
        parts = list(parts_of(stream))
        for begin, end, lane in parts:
            mask[lane, begin:end] = True
        if form == "dense":
            return self._truncated_dense(name, stream, mask)
        try:
            values = stream.indices(self.index)
        except ReaderError as error:
            raise _not_ids(name, error) from error
        ids = np.full(mask.shape, self._whole_fill(name), self.index)
        first = 0
        for begin, end, lane in parts:
            ids[lane, begin:end] = values[first : first + end - begin]
            first += end - begin
        return {name: self.from_array(ids), f"{name}_mask": self.from_array(mask)}

    def _truncated_dense(self, name: str, stream: StreamMinibatch, mask: npt.NDArray[np.bool_]) -> dict[str, Tensor]:
        # (steps, lanes, ...) to (lanes, steps, ...).
        array = np.ascontiguousarray(stream.array.swapaxes(0, 1))
        if self._fill(name):
            array[~mask] = self._fill(name)
        return {name: self.from_array(array), f"{name}_mask": self.from_array(mask)}

    def _empty(self, info: StreamInformation) -> dict[str, Tensor]:
        """Returns the arrays of a stream without sequences, for a worker whose share is empty."""
        name, form = info.name, self._form(info)
        is_padded = self._recorded(info) if self._sequences is None else name in self._sequences
        if form == "csr":
            return {name: self.empty_matrix(info.sample_size, _dtype(info))}
        if form == "bag":
            none = self.from_array(np.zeros(0, self.index))
            return {
                name: none,
                f"{name}_offsets": none,
                f"{name}_weights": self.from_array(np.zeros(0, _dtype(info))),
            }
        shape, dtype = ((), self.index) if form == "ids" else (info.shape, _dtype(info))
        if not is_padded:
            return {name: self.from_array(np.zeros((0, *shape), dtype))}
        # One step, because many layers refuse sequences without any.
        mask = self.from_array(np.zeros((0, 1), np.bool_))
        return {name: self.from_array(np.zeros((0, 1, *shape), dtype)), f"{name}_mask": mask}


def _dtype(info: StreamInformation) -> np.dtype[np.generic]:
    return dtype_of("bfloat16") if info.dtype == "bfloat16" else np.dtype(info.dtype)


def parts_of(stream: StreamMinibatch) -> Iterator[tuple[int, int, int]]:
    """Returns the steps and the lane of each sequence, in the order of the sequences."""
    records = stream.records
    records = records[records["sequence"] != GAP]
    records = records[np.argsort(records["sequence"], kind="stable")]
    begins = np.maximum(records["begin"], 0).tolist()
    ends = np.minimum(records["end"], stream.steps).tolist()
    return zip(begins, ends, records["lane"].tolist())


def _not_ids(name: str, error: ReaderError) -> Exception:
    """Returns the error about a sparse stream that is not one-hot, with a remedy."""
    if error.kind != "invalid_argument":
        return error
    place = f"stream {error.stream}" if error.key is None else f"stream {error.stream}, sequence {error.key}"
    failure = ReaderValueError(
        f"{error.message} ({place}) Sparse streams come as ids by default. Pass sparse={{{name!r}: 'bag'}} for embedding_bag, or "
        f"sparse={{{name!r}: 'csr'}} for a sparse matrix."
    )
    failure.kind, failure.message, failure.stream, failure.key = error.kind, error.message, error.stream, error.key
    return failure
