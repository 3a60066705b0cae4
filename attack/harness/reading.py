"""Reads a source to a trace, from the arrays of minibatches only, without the package's forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from cntk_reader import Minibatch, MinibatchSource, ReaderError, StreamMinibatch

from harness.case import Difference
from harness.trace import Batch, Event, Failure, Layout, Record, Sample, Sequence

_GAP = 2**64 - 1
#: Rules of errors by prefix of the message.
_RULES = {
    "Reached the maximum number of allowed errors": "too many errors",
    "Malformed input file": "empty stream",
    "Input file is empty": "empty file",
    "Found a UTF-16 BOM": "utf-16",
    "Expected a sequence id": "no id",
    "Overflow while reading a numeric sequence id": "id overflow",
    "Buffer is empty": "empty file",
    "A whole sweep has delivered nothing": "empty sweep",
    "Number of invalid sequences": "invalid sequences",
}


def failure_of(error: ReaderError) -> Failure:
    """Converts an error of the reader to its rule and place."""
    for start, rule in _RULES.items():
        if error.message.startswith(start):
            return Failure(rule, error.line, error.key)
    return Failure(f"{error.kind}: {error.message} {error.detail}", error.line, error.key)


def layout_of(stream: StreamMinibatch) -> Layout:
    """Returns the layout of a stream."""
    records = tuple(
        Record(None if sequence == _GAP else sequence, lane, begin, end)
        for sequence, lane, begin, end in stream.records.tolist()
    )
    return Layout(stream.steps, stream.lanes, records)


def _columns(stream: StreamMinibatch) -> Callable[[int], Sample]:
    columns = stream.steps * stream.lanes
    if not stream.is_sparse:
        values = stream.array.reshape(columns, -1)
        return lambda column: Sample(values[column])
    data, indices, starts, _ = stream.sparse
    bounds, places = starts.tolist(), indices.tolist()

    def sample(column: int) -> Sample:
        begin, end = bounds[column : column + 2]
        return Sample(data[begin:end], tuple(places[begin:end]))

    return sample


def sequences_of(stream: StreamMinibatch) -> list[Sequence]:
    """Returns the samples of each sequence of a minibatch, in the order of their numbers."""
    layout, column = layout_of(stream), _columns(stream)
    sequences: dict[int, Sequence] = {}
    for sequence, lane, begin, end in layout.records:
        steps = range(max(begin, 0), min(end, layout.steps))
        samples = [column(step * layout.lanes + lane) for step in steps]
        if sequence is not None:
            sequences[sequence] = samples
        elif any(sample.values.view(np.uint8).any() for sample in samples):
            raise Difference(f"stream '{stream.info.name}': a gap is not zero")
    if sorted(sequences) != list(range(len(sequences))):
        raise Difference(f"stream '{stream.info.name}': sequences {sorted(sequences)}")
    return [sequences[number] for number in range(len(sequences))]


def batch_of(minibatch: Minibatch, position: int | None = None) -> Batch:
    """Converts a minibatch to plain values."""
    names = sorted(minibatch) if minibatch else []
    streams = {name: sequences_of(minibatch[name]) for name in names}
    count = len(minibatch.keys_of_sequences) if minibatch else 0
    return Batch(
        keys=[minibatch.key_text(number) for number in range(count)],
        streams=streams,
        end_of_sweep=bool(minibatch.end_of_sweep),
        end_of_epoch=bool(minibatch.end_of_epoch),
        position=position,
        layouts={name: layout_of(minibatch[name]) for name in names},
    )


def position_of(source: MinibatchSource) -> int | None:
    """Returns the position in CNTK's state, which exists if chunks list their sequences in
    advance."""
    return source.cntk_state().get("minibatchSourcePosition")


def read(source: MinibatchSource, limit: int = 1000, positions: bool = True, reads_on: bool = False) -> list[Event]:
    """Reads up to the end or the first error. At the end, the last minibatch has no data."""
    events: list[Event] = []
    for _ in range(limit):
        try:
            minibatch = source.next_minibatch()
        except ReaderError as error:
            events.append(failure_of(error))
            if reads_on:
                continue
            break
        events.append(batch_of(minibatch, position_of(source) if positions else None))
        if not minibatch and minibatch.end_of_epoch:
            break
    return events


def with_data(events: list[Event]) -> Iterator[Batch]:
    """Returns the minibatches of a trace that have data."""
    return (event for event in events if isinstance(event, Batch) and event.streams)
