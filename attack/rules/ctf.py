"""The text format: CNTK 2.7's index of sequences and chunks, and its parser of a sequence."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
from harness.trace import Failure, Sample, Sequence

from rules import numbers

_SPACES = b" \t\n\v\f\r"
_DIGITS = b"0123456789"


class CtfError(Exception):
    """An error that ends reading."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


@dataclass(frozen=True)
class Stream:
    """A stream of a text file."""

    name: str
    alias: bytes
    dim: int
    is_sparse: bool
    dtype: np.dtype[np.generic]
    defines: bool = False
    #: The type of ids: samples of one entry, `index:1`, are delivered as the index.
    ids: np.dtype[np.generic] | None = None


@dataclass(frozen=True)
class Entry:
    """A sequence in the index. Its samples are the lines that count."""

    key: int
    samples: int
    offset: int
    size: int


def _ends_value(byte: int) -> bool:
    """CNTK sees bytes from 128 on as negative characters; they end names and values."""
    return byte < 0x20 or byte >= 0x80


def _counts(line: bytes, main: bytes | None) -> bool:
    if main is None:
        return True
    at = line.find(b"|" + main)
    while at >= 0:
        after = at + 1 + len(main)
        if after == len(line) or line[after] in _SPACES + b"|" or _ends_value(line[after]):
            return True
        at = line.find(b"|" + main, at + 1)
    return False


def _key(data: bytes, at: int) -> int | None:
    """Returns the id at the start of a line. Digits at the very end of the file do not count."""
    if at >= len(data) or data[at] not in _DIGITS:
        return None
    value, end = numbers.index(data, at, len(data))
    if value is None:
        raise CtfError(Failure("id overflow", data.count(b"\n", 0, at) + 1))
    return None if end == len(data) else value


def index(data: bytes, main: bytes | None, skips_ids: bool) -> list[Entry]:
    """Returns the sequences of a file in order. `main` is the alias that counts lines, if any."""
    if data[:2] == b"\xff\xfe":
        raise CtfError(Failure("utf-16", 1))
    if not data:
        raise CtfError(Failure("empty file"))
    start = 0
    while start < 3 and data[start : start + 1] == b"\xef\xbb\xbf"[start : start + 1]:
        start += 1
    line = 0
    while start < len(data) and data[start] in _SPACES:
        line += data[start] == 10
        start += 1
    if start == len(data):
        raise CtfError(Failure("empty file"))
    bounds = [start]
    while bounds[-1] < len(data):
        end = data.find(b"\n", bounds[-1])
        bounds.append(len(data) if end < 0 else end + 1)
    lines = list(zip(bounds, bounds[1:]))
    if skips_ids or data[start] == 124:
        return [
            Entry(line + number, 1, begin, end - begin)
            for number, (begin, end) in enumerate(lines)
            if _counts(data[begin:end], main)
        ]
    key = _key(data, start)
    if key is None:
        raise CtfError(Failure("no id", line + 1))
    entries = []
    first, samples = start, 0
    for begin, end in lines:
        its = _key(data, begin)
        if its is not None and its != key:
            if samples:
                entries.append(Entry(key, samples, first, begin - first))
            key, first, samples = its, begin, 0
        # Digits at the end of the file look like the start of an id, and do not begin a line.
        is_line = not data[begin:].isdigit()
        samples += is_line and _counts(data[begin:end], main)
    if samples:
        entries.append(Entry(key, samples, first, len(data) - first))
    return entries


def chunks(entries: list[Entry], limit: int) -> list[list[Entry]]:
    """Groups sequences into chunks. A gap before a sequence does not count, gaps inside a chunk
    do."""
    made: list[list[Entry]] = []
    held = 0
    for entry in entries:
        if held == 0 or held + entry.size > limit:
            made.append([])
        made[-1].append(entry)
        first = made[-1][0]
        held = entry.offset + entry.size - first.offset
    return made


class Parser:
    """Parses sequences, and counts the errors in all of them."""

    def __init__(self, data: bytes, streams: list[Stream], max_errors: int, is_strict: bool = True) -> None:
        self._data = data
        self._streams = streams
        self._by_alias = {stream.alias: place for place, stream in enumerate(streams)}
        self._longest = max(len(stream.alias) for stream in streams)
        self._left = max_errors
        self._is_strict = is_strict
        self._line_ends = [at for at, byte in enumerate(data) if byte == 10]

    def _line(self, offset: int) -> int:
        return bisect.bisect_left(self._line_ends, offset) + 1

    def _error(self, offset: int, key: int) -> None:
        if self._left == 0:
            raise CtfError(Failure("too many errors", self._line(offset), str(key)))
        self._left -= 1

    def chunk(self, entries: list[Entry]) -> list[list[Sequence]]:
        """Returns the sequences of a chunk. CNTK tries five times, and errors of each attempt
        count.

        The error is that of the last attempt. If the first attempt failed by the same rule, the
        place is where it failed; otherwise the repetition used up the tolerated errors, and any
        line may be the cause.
        """
        first: Failure | None = None
        last = entries[-1].offset + entries[-1].size - 1
        lines = range(self._line(entries[0].offset), self._line(last) + 1)
        for attempt in range(5):
            try:
                return [self.sequence(entry) for entry in entries]
            except CtfError as error:
                first = first or error.failure
                if attempt == 4:
                    rule = error.failure.rule
                    raise CtfError(first if first.rule == rule else Failure(rule, lines)) from None
        return []

    def sequence(self, entry: Entry) -> list[Sequence]:
        """Returns the samples of each stream; none if a tolerant parser leaves the sequence out."""
        self._at, self._end = entry.offset, entry.offset + entry.size
        self._samples: list[Sequence] = [[] for _ in self._streams]
        self._key = entry.key
        while self._at < self._end:
            self._row = self._at
            if not self._read_row():
                self._error(self._row, entry.key)
        counts = [len(samples) for samples in self._samples]
        if 0 in counts and not self._is_strict:
            return []
        if 0 in counts:
            place = self._line(entry.offset)
            raise CtfError(Failure("empty stream", place, str(entry.key)))
        defining = [at for at, stream in enumerate(self._streams) if stream.defines]
        length = max([counts[at] for at in defining] or counts)
        if length > entry.samples or (length < entry.samples and self._is_strict):
            self._error(entry.offset, entry.key)
        return self._samples

    def _peek(self) -> int:
        return self._data[self._at]

    def _fail(self) -> None:
        self._error(self._row, self._key)

    def _read_row(self) -> bool:
        while self._at < self._end and self._peek() in _DIGITS:
            self._at += 1
        count = 0
        while self._at < self._end:
            byte = self._peek()
            if byte == 10:
                self._at += 1
                return count > 0
            if byte in b" \t" or _ends_value(byte):
                self._at += 1
            elif self._read_sample():
                count += 1
            else:
                while self._at < self._end and self._peek() not in b"|\n":
                    self._at += 1
        return True

    def _read_sample(self) -> bool:
        if self._peek() != 124:
            self._fail()
            return False
        self._at += 1
        if self._at < self._end and self._peek() == 35:
            self._at += 1
            return False
        place = self._read_name()
        if place is None:
            return False
        stream = self._streams[place]
        sample = self._sparse(place) if stream.is_sparse else self._dense(stream)
        if sample is not None and stream.ids is not None:
            is_one = len(sample.values) == 1 and sample.values[0] == 1
            sample = Sample(np.array(sample.indices, stream.ids)) if is_one else None
        if sample is None:
            self._fail()
            return False
        self._samples[place].append(sample)
        return True

    def _read_name(self) -> int | None:
        first = self._at
        while self._at < self._end:
            byte = self._peek()
            if byte in b" \t|" or _ends_value(byte):
                name = self._data[first : self._at]
                if not name:
                    self._fail()
                return self._by_alias.get(name)
            if self._at - first == self._longest:
                # Longer than any alias: unknown, but not an error.
                return None
            self._at += 1
        self._fail()
        return None

    def _number(self, dtype: np.dtype[np.generic]) -> np.generic | None:
        first = self._at
        value, self._at = numbers.real(self._data, first, self._end)
        if value is None:
            return None
        return numbers.element(self._data[first : self._at], value, dtype)

    def _dense(self, stream: Stream) -> Sample | None:
        values: list[np.generic] = []
        is_ended = False
        while self._at < self._end:
            byte = self._peek()
            if byte in b" \t":
                self._at += 1
            elif _ends_value(byte) or byte == 124:
                is_ended = True
                break
            else:
                value = self._number(stream.dtype)
                if value is None:
                    return None
                values.append(value)
        # A sample at the end of the file may be too long, but not empty.
        if (is_ended and len(values) > stream.dim) or (not is_ended and not values):
            return None
        filled = np.zeros(stream.dim, stream.dtype)
        held = values[: stream.dim]
        filled[: len(held)] = held
        return Sample(filled)

    def _sparse(self, place: int) -> Sample | None:
        stream = self._streams[place]
        indices: list[int] = []
        values: list[np.generic] = []
        while self._at < self._end:
            byte = self._peek()
            if byte in b" \t":
                self._at += 1
                continue
            if _ends_value(byte) or byte == 124:
                return Sample(np.array(values, stream.dtype), tuple(indices))
            number, self._at = numbers.index(self._data, self._at, self._end)
            if number is None or self._at == self._end or number >= stream.dim:
                return None
            if self._peek() != 58:
                return None
            self._at += 1
            value = self._number(stream.dtype)
            if value is None:
                return None
            indices.append(number)
            values.append(value)
        earlier = sum(len(sample.values) for sample in self._samples[place])
        if not values and not earlier:
            return None
        return Sample(np.array(values, stream.dtype), tuple(indices))
