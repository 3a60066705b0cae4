"""Packing: truncated minibatches, and the forms of whole sequences, compared with plain loops."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
from cntk_reader import CTFDeserializer, MinibatchSource, ReaderError, StreamDef, StreamDefs
from harness import reading
from harness.case import Case, Difference
from harness.trace import Batch, Event, Sample, Sequence, dense, first_difference, sparse
from rules import ctf, order, truncated

from models.data import Limits, Order

_FLOAT = np.dtype("float32")
Floats = npt.NDArray[np.float32]


def run(case: Case) -> None:
    """Checks truncated minibatches or forms, at random."""
    if case.rng.random() < 0.5:
        _truncated(case)
    else:
        _forms(case)


def _entries(rng: random.Random, dim: int, is_one_hot: bool) -> list[tuple[int, int]]:
    if is_one_hot:
        return [(rng.randrange(dim), 1)]
    count = rng.randint(0, 4)
    ones = rng.random() < 0.5
    # An index may be repeated; sums of these values are exact.
    return [(rng.randrange(dim), 1 if ones else rng.randint(1, 9)) for _ in range(count)]


def _summed(entries: Any, dim: int) -> Floats:
    values = np.zeros(dim, _FLOAT)
    for place, value in entries:
        values[place] += value
    return values


class _Data:
    """Sequences with a dense, a one-hot and a multi-hot stream."""

    def __init__(self, case: Case, has_one_length: bool) -> None:
        rng = case.rng
        self.dims = {"bags": rng.randint(1, 6), "dense": rng.randint(1, 3), "hot": rng.randint(1, 9)}
        self.sequences: dict[str, list[list[Any]]] = {name: [] for name in self.dims}
        lines: list[bytes] = []
        self.lengths = []
        for number in range(rng.randint(1, 25)):
            longest = rng.choice([1, 3, 9, 20])
            length = rng.randint(1, longest)
            self.lengths.append(length)
            own = {name: length if has_one_length or name == "dense" else rng.randint(1, length) for name in self.dims}
            made: dict[str, list[Any]] = {
                "bags": [_entries(rng, self.dims["bags"], False) for _ in range(own["bags"])],
                "hot": [_entries(rng, self.dims["hot"], True) for _ in range(own["hot"])],
                "dense": [[rng.randint(-99, 99) for _ in range(self.dims["dense"])] for _ in range(own["dense"])],
            }
            for name, samples in made.items():
                self.sequences[name].append(samples)
            for step in range(length):
                parts = [b"%d" % number]
                for name, samples in made.items():
                    if step < len(samples):
                        words = [
                            b"%d:%d" % entry if isinstance(entry, tuple) else b"%d" % entry for entry in samples[step]
                        ]
                        parts.append(b"|%s %s" % (name.encode(), b" ".join(words)))
                lines.append(b" ".join(parts) + b"\n")
        self.text = b"".join(lines)
        self.file = case.write("input.ctf", self.text)
        self.chunk_size = rng.choice([1, 200, 1000, 1 << 25])
        case.facts.update(lengths=self.lengths, dims=self.dims, chunk_size=self.chunk_size)

    def deserializer(self) -> CTFDeserializer:
        """Returns the file as a deserializer."""
        made = {name: StreamDef(shape=dim, is_sparse=name != "dense") for name, dim in self.dims.items()}
        return CTFDeserializer(self.file, StreamDefs(**made), chunk_size_in_bytes=self.chunk_size)

    def samples(self, name: str, number: int) -> list[Floats]:
        """Returns the samples of a sequence, dense."""
        made = self.sequences[name][number]
        if name == "dense":
            return [np.array(values, _FLOAT) for values in made]
        return [_summed(entries, self.dims[name]) for entries in made]

    def expected(self, name: str, number: int, expands: bool) -> Sequence:
        """Returns the samples of a sequence as truncated minibatches deliver them: dense if
        ``expands``."""
        if expands or name == "dense":
            return [dense(row, _FLOAT) for row in self.samples(name, number)]
        return [
            sparse([place for place, _ in entries], [value for _, value in entries], _FLOAT)
            for entries in self.sequences[name][number]
        ]

    def chunks(self) -> order.Chunks:
        """Returns the chunks of the file."""
        chunks = ctf.chunks(ctf.index(self.text, None, False), self.chunk_size)
        return order.make_chunks([[entry.samples for entry in chunk] for chunk in chunks])


def _truncated(case: Case) -> None:
    rng = case.rng
    corpus = _Data(case, True)
    total = sum(corpus.lengths)
    how, limits = Order.random(rng, total), Limits.random(rng, total)
    steps = rng.randint(1, 12)
    workers = rng.choice([1, 1, 2, 3])
    rank = rng.randrange(workers)
    size = steps * workers + rng.randint(0, 5 * steps)
    splice = rng.randrange(steps) if rng.random() < 0.3 else 0
    # As in CNTK: sparse streams become dense.
    expands = rng.random() < 0.5
    case.facts.update(
        order=str(how), limits=str(limits), steps=steps, workers=workers, rank=rank, size=size,
        right_splice=splice, expands=expands,
    )  # fmt: skip
    settings: dict[str, Any] = {**how.settings(), **limits.settings()}
    settings["options"] = {**settings.get("options", {}), "expandSparse": expands}
    if splice:
        settings["options"]["rightSplice"] = splice
    timeline = how.timeline(corpus.chunks(), limits.epoch(total), workers, rank)
    packer = truncated.Packer(timeline, size, steps, splice)
    want: list[Event] = []
    while True:
        cut = packer.read()
        if cut.layout is None:
            want.append(Batch([], {}, cut.end_of_sweep, cut.end_of_epoch, timeline.position))
            break
        streams: dict[str, list[Sequence]] = {
            name: [corpus.expected(name, one.number, expands)[one.begin : one.end] for one in cut.pieces]
            for name in sorted(corpus.dims)
        }
        keys = [str(one.number) for one in cut.pieces]
        batch = Batch(keys, streams, cut.end_of_sweep, cut.end_of_epoch, timeline.position)
        batch.layouts = dict.fromkeys(streams, cut.layout)
        want.append(batch)
    with MinibatchSource(
        corpus.deserializer(),
        truncation_length=steps,
        minibatch_size=size,
        workers=workers,
        rank=rank,
        **settings,
    ) as source:
        got = reading.read(source)
    words = first_difference(want, case.observed(got))
    if words is not None:
        raise Difference(words)


def _forms(case: Case) -> None:
    rng = case.rng
    corpus = _Data(case, False)
    how = Order.random(rng, sum(corpus.lengths))
    size = rng.choice([1, 5, 20, 10**6])
    case.facts.update(order=str(how), size=size)
    timeline = how.timeline(corpus.chunks(), order.Epoch(sum(corpus.lengths)))
    want: list[Event] = []
    got: list[Event] = []
    settings = how.settings()
    with MinibatchSource(corpus.deserializer(), minibatch_size=size, max_sweeps=1, **settings) as source:
        for minibatch in source:
            part = order.read_next(timeline, size)
            numbers = [item.number for item in part.items]
            keys = [str(number) for number in numbers]
            samples = {name: [corpus.samples(name, number) for number in numbers] for name in sorted(corpus.dims)}
            expected = {
                name: [[dense(row, _FLOAT) for row in sequence] for sequence in sequences]
                for name, sequences in samples.items()
            }
            want.append(Batch(keys, expected, part.end_of_sweep))
            packed = {name: _unpacked(minibatch[name].packed()) for name in expected}
            its = [minibatch.key_text(number) for number in range(len(minibatch.keys_of_sequences))]
            got.append(Batch(its, packed, bool(minibatch.end_of_sweep)))
            if its == keys:
                for name in samples:
                    _padded(case, name, minibatch[name], samples[name])
                _indices(case, minibatch["hot"], [corpus.sequences["hot"][at] for at in numbers])
                _sparse(case, minibatch["bags"], [corpus.sequences["bags"][at] for at in numbers])
    words = first_difference(want, case.observed(got))
    if words is not None:
        raise Difference(words)


def _unpacked(packed: Any) -> list[Sequence]:
    bounds = packed.offsets.tolist()
    longest = max(end - begin for begin, end in zip(bounds, bounds[1:]))
    if packed.longest != longest or len(packed.values) != bounds[-1]:
        raise Difference(f"packed(): longest {packed.longest}, offsets {bounds}")
    return [[Sample(row.reshape(-1)) for row in packed.values[begin:end]] for begin, end in zip(bounds, bounds[1:])]


def _equal(case: Case, what: str, want: Any, got: Any) -> None:
    want = np.asarray(want)
    same = want.shape == got.shape and want.dtype == got.dtype and want.tobytes() == got.tobytes()
    case.check(same, f"{what}: expected {want!r}, got {got!r}")


def _padded(case: Case, name: str, stream: Any, sequences: list[list[Floats]]) -> None:
    rng = case.rng
    value = rng.choice([0, -1, 2.5])
    longest = max(map(len, sequences))
    length = None if rng.random() < 0.5 else longest + rng.randint(0, 3)
    array, mask = stream.padded(value, length)
    want = np.full((len(sequences), length or longest, len(sequences[0][0])), value, _FLOAT)
    its_mask = np.zeros(want.shape[:2], np.bool_)
    for row, sequence in enumerate(sequences):
        want[row, : len(sequence)] = sequence
        its_mask[row, : len(sequence)] = True
    _equal(case, f"{name}.padded({value}, {length})", want, array)
    _equal(case, f"mask of {name}.padded({value}, {length})", its_mask, mask)
    for sequence, other in zip(sequences, stream.as_list()):
        _equal(case, f"{name}.as_list()", np.array(sequence, _FLOAT), other)


def _indices(case: Case, stream: Any, sequences: list[list[Any]]) -> None:
    dtype = np.dtype(case.rng.choice(["int32", "int64"]))
    numbers = [[entries[0][0] for entries in sequence] for sequence in sequences]
    flat = [place for sequence in numbers for place in sequence]
    _equal(case, "indices()", np.array(flat, dtype), stream.indices(dtype=dtype))
    longest = max(map(len, numbers))
    array, mask = stream.padded_indices(-100, dtype=dtype)
    want = [sequence + [-100] * (longest - len(sequence)) for sequence in numbers]
    _equal(case, "padded_indices()", np.array(want, dtype), array)
    rows = [[step < len(sequence) for step in range(longest)] for sequence in numbers]
    _equal(case, "mask of padded_indices()", np.array(rows), mask)
    values, offsets, most = stream.packed_indices(dtype=dtype)
    _equal(case, "packed_indices()", np.array(flat, dtype), values)
    bounds = np.cumsum([0, *map(len, numbers)]).astype(np.int32)
    _equal(case, "offsets of packed_indices()", bounds, offsets)
    case.check(most == longest, f"packed_indices(): expected longest {longest}, got {most}")


def _sparse(case: Case, stream: Any, sequences: list[list[Any]]) -> None:
    dim = stream.info.sample_size
    samples = [entries for sequence in sequences for entries in sequence]
    bags = stream.bags()
    bounds = bags.offsets.tolist()
    case.check(len(bounds) == len(samples) + 1, f"bags(): {len(bounds)} offsets of {len(samples)}")
    weights = np.ones(len(bags.indices), _FLOAT) if bags.weights is None else bags.weights
    for number, entries in enumerate(samples):
        own = slice(bounds[number], bounds[number + 1])
        its = _summed(zip(bags.indices[own].tolist(), weights[own].tolist()), dim)
        _equal(case, f"sample {number} of bags()", _summed(entries, dim), its)
    if all(value == 1 for entries in samples for _, value in entries):
        places = [place for entries in samples for place, _ in entries]
        if len(places) == len(bags.indices):
            case.check(bags.weights is None, "bags(): weights although all values are 1")
    want = np.cumsum([0, *map(len, sequences)]).astype(np.int32)
    _equal(case, "sequence_offsets of bags()", want, bags.sequence_offsets)
    is_one_hot = all(len(entries) == 1 and entries[0][1] == 1 for entries in samples)
    try:
        stream.indices()
        case.check(is_one_hot, "indices(): expected an error, because a sample is not one-hot")
    except ReaderError as error:
        case.check(not is_one_hot, f"indices(): {error}")
    values, indices, starts, _ = stream.canonical()
    for first, last in zip(starts.tolist(), starts.tolist()[1:]):
        row = indices[first:last].tolist()
        case.check(row == sorted(set(row)), f"canonical(): a row has the indices {row}")
    columns = np.zeros((stream.steps * stream.lanes, dim), _FLOAT)
    for column in range(len(columns)):
        own = slice(starts[column], starts[column + 1])
        columns[column, indices[own]] = values[own]
    layout = reading.layout_of(stream)
    for sequence, lane, begin, end in layout.records:
        for step in range(begin, end):
            entries = [] if sequence is None else sequences[sequence][step - begin]
            row = columns[step * layout.lanes + lane]
            _equal(case, f"column {step}, {lane} of canonical()", _summed(entries, dim), row)
