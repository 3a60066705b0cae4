"""A run as plain values: minibatches with sequences of samples, and the error that ended it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Union

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


class Sample(NamedTuple):
    """One step of a sequence: all values if dense, otherwise the values at some indices."""

    values: Array
    indices: tuple[int, ...] | None = None


#: The samples of one sequence in one stream.
Sequence = list[Sample]


class Record(NamedTuple):
    """The place of a sequence in a minibatch. The sequence of a gap is None."""

    sequence: int | None
    lane: int
    begin: int
    end: int


class Layout(NamedTuple):
    """The shape of a stream's minibatch."""

    steps: int
    lanes: int
    records: tuple[Record, ...]


@dataclass
class Batch:
    """A minibatch. Members that are None are not compared."""

    keys: list[str] | None
    streams: dict[str, list[Sequence]]
    end_of_sweep: bool | None = None
    end_of_epoch: bool | None = None
    #: Samples of all workers from the start of the data, after this minibatch.
    position: int | None = None
    layouts: dict[str, Layout] = field(default_factory=dict)


@dataclass
class Failure:
    """An error: its rule, and its place, or a range of lines, if the model knows it."""

    rule: str
    line: int | range | None = None
    key: str | None = None


Event = Union[Batch, Failure]


def dense(values: object, dtype: object) -> Sample:
    """Returns a dense sample."""
    return Sample(np.asarray(values, dtype=dtype).reshape(-1))  # type: ignore[call-overload]


def sparse(indices: list[int], values: object, dtype: object) -> Sample:
    """Returns a sparse sample, with its entries in the order of the data."""
    return Sample(np.asarray(values, dtype=dtype).reshape(-1), tuple(indices))  # type: ignore[call-overload]


def _show(value: np.generic) -> str:
    return f"{value!s} (bytes {value.tobytes()[::-1].hex()})"


def _samples(expected: Sample, got: Sample) -> str | None:
    if expected.indices != got.indices:
        return f"expected the indices {expected.indices}, got {got.indices}"
    if expected.values.dtype != got.values.dtype:
        return f"expected values of {expected.values.dtype}, got {got.values.dtype}"
    if len(expected.values) != len(got.values):
        return f"expected {len(expected.values)} values, got {len(got.values)}"
    if expected.values.tobytes() == got.values.tobytes():
        return None
    for place, (one, other) in enumerate(zip(expected.values, got.values)):
        if one.tobytes() != other.tobytes():
            return f"value {place}: expected {_show(one)}, got {_show(other)}"
    return None


def _streams(expected: Batch, got: Batch) -> str | None:
    if list(expected.streams) != list(got.streams):
        return f"expected the streams {list(expected.streams)}, got {list(got.streams)}"
    for name, sequences in expected.streams.items():
        others = got.streams[name]
        if len(sequences) != len(others):
            return f"stream '{name}': expected {len(sequences)} sequences, got {len(others)}"
        for number, (one, other) in enumerate(zip(sequences, others)):
            place = f"stream '{name}', sequence {number}"
            if len(one) != len(other):
                return f"{place}: expected {len(one)} samples, got {len(other)}"
            for step, (sample, its) in enumerate(zip(one, other)):
                words = _samples(sample, its)
                if words is not None:
                    return f"{place}, sample {step}: {words}"
    return None


def _batches(expected: Batch, got: Batch) -> str | None:
    if expected.keys is not None and expected.keys != got.keys:
        return f"expected the keys {expected.keys}, got {got.keys}"
    words = _streams(expected, got)
    if words is not None:
        return words
    for name in "end_of_sweep", "end_of_epoch", "position":
        one, other = getattr(expected, name), getattr(got, name)
        if one is not None and one != other:
            return f"expected {name} {one}, got {other}"
    for stream, layout in expected.layouts.items():
        other_layout = got.layouts.get(stream)
        if layout != other_layout:
            return f"stream '{stream}': expected the layout {layout}, got {other_layout}"
    return None


def _brief(event: Event) -> str:
    if isinstance(event, Failure):
        return f"the error {event}"
    return f"a minibatch with the keys {event.keys}"


def first_difference(expected: list[Event], got: list[Event]) -> str | None:
    """Returns the first difference between two traces in words; None if they are equal."""
    for number, (one, other) in enumerate(zip(expected, got)):
        if isinstance(one, Batch) and isinstance(other, Batch):
            words = _batches(one, other)
        elif isinstance(one, Failure) and isinstance(other, Failure):
            same = one.rule == other.rule
            same = same and one.key in (None, other.key)
            if isinstance(one.line, range):
                same = same and other.line in one.line
            elif one.line is not None:
                same = same and one.line == other.line
            words = None if same else f"expected {_brief(one)}, got {_brief(other)}"
        else:
            words = f"expected {_brief(one)}, got {_brief(other)}"
        if words is not None:
            return f"read {number}: {words}"
    if len(expected) != len(got):
        number = min(len(expected), len(got))
        more, whose = (expected, "missing") if len(expected) > len(got) else (got, "unexpected")
        return f"read {number}: {whose} {_brief(more[number])}"
    return None
