"""The order of sequences and the ends of minibatches, like CNTK 2.7's global timeline."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import NamedTuple

from rules.twister import Twister

UNLIMITED = 2**64 - 1
#: The limit in samples of an epoch without end.
ENDLESS = (2**64 - 1) // 2


class Item(NamedTuple):
    """A sequence of the data."""

    chunk: int
    number: int
    length: int


class Placed(NamedTuple):
    """A sequence in the order of a sweep. Its home is the place of its chunk in the sweep."""

    home: int
    item: Item


class Window(NamedTuple):
    """The size of the randomization window."""

    size: int
    in_samples: bool


class Selection(NamedTuple):
    """The sequences that one read selects."""

    items: list[Item]
    end_of_sweep: bool
    end_of_epoch: bool


Chunks = list[list[Item]]


def make_chunks(lengths: list[list[int]]) -> Chunks:
    """Returns consecutively numbered sequences with the lengths of each chunk."""
    made, number = [], 0
    for chunk, its in enumerate(lengths):
        made.append([Item(chunk, number + at, length) for at, length in enumerate(its)])
        number += len(its)
    return made


def _windows(sizes: list[int], window: Window) -> list[tuple[int, int]]:
    """Returns the range of chunk places in the window of each place."""
    count, half = len(sizes), window.size // 2
    if not window.in_samples:
        width = (window.size % 2**32) or 1
        made = []
        for at in range(count):
            begin = max(at - half, 0)
            if begin + width > count:
                made.append((max(count - width, 0), count))
            else:
                made.append((begin, begin + width))
        return made
    starts = [sum(sizes[:at]) for at in range(count)]
    made = []
    begin, end = 0, 1
    for at in range(count):
        while starts[at] - starts[begin] > half:
            begin += 1
        begin, end = min(begin, at), max(end, at + 1)
        while end < count and starts[end] + sizes[end] - starts[at] < half:
            end += 1
        made.append((begin, end))
    return made


def sweep_order(chunks: Chunks, seed: int, window: Window) -> list[Placed]:
    """Returns the order of one sweep. Both generators start with the seed of the sweep."""
    ids = list(range(len(chunks)))
    Twister(seed).shuffle(ids)
    placed = [chunks[one] for one in ids]
    windows = _windows([sum(item.length for item in chunk) for chunk in placed], window)
    starts = [0]
    for chunk in placed:
        starts.append(starts[-1] + len(chunk))
    rows = [Placed(home, item) for home, chunk in enumerate(placed) for item in chunk]
    row_of = [place for place, chunk in enumerate(placed) for _ in chunk]
    draw = Twister(seed)
    done = cursor = 0
    while done < len(placed):
        following = windows[done][1]
        while following < len(placed) and windows[following][0] <= done:
            following += 1
        for at in range(starts[cursor], starts[following]):
            begin, end = windows[row_of[at]]
            while True:
                other = draw.within(starts[begin], starts[end])
                low, high = windows[row_of[other]]
                if begin <= rows[other].home < end and low <= rows[at].home < high:
                    break
            rows[at], rows[other] = rows[other], rows[at]
        done, cursor = done + 1, max(cursor, following)
    return rows


@dataclass
class Epoch:
    """The limits of an epoch in samples of all workers."""

    size: int
    number: int = 0

    @property
    def start(self) -> int:
        """The first position."""
        return self.size * self.number

    @property
    def end(self) -> int:
        """The position after the last one."""
        return self.start + self.size


class Timeline:
    """A position in the data, and the rules by which a worker selects its share from there."""

    def __init__(self, chunks: Chunks, epoch: Epoch, workers: int = 1, rank: int = 0) -> None:
        self.chunks = chunks
        self.items = [item for chunk in chunks for item in chunk]
        self.sweep_size = sum(item.length for item in self.items)
        self.epoch = epoch
        self.workers, self.rank = workers, rank
        self.position = 0
        self.seek(epoch.start)

    def seek(self, position: int) -> None:
        """Moves to the first sequence that begins at a position or after it."""
        raise NotImplementedError

    def next(self, everyone: int, own: int) -> Selection:
        """Returns the next sequences, up to limits in samples of all workers and of this one."""
        raise NotImplementedError

    def _over(self) -> Selection:
        at_end = self.position >= self.sweep_size and self.position % self.sweep_size == 0
        return Selection([], at_end, True)


class Randomized(Timeline):
    """Sequences in random order. Workers divide the chunks by their places in the sweep."""

    def __init__(
        self,
        chunks: Chunks,
        epoch: Epoch,
        seed: int,
        window: Window,
        workers: int = 1,
        rank: int = 0,
    ) -> None:
        self._seed, self._window = seed, window
        self._sweeps: dict[int, tuple[list[Placed], list[int]]] = {}
        super().__init__(chunks, epoch, workers, rank)

    def sweep(self, number: int) -> tuple[list[Placed], list[int]]:
        """Returns the sequences of a sweep, and the position in the sweep at which each begins."""
        if number not in self._sweeps:
            rows = sweep_order(self.chunks, (self._seed + number) % 2**64, self._window)
            starts = [0]
            for row in rows:
                starts.append(starts[-1] + row.item.length)
            self._sweeps[number] = rows, starts
        return self._sweeps[number]

    def seek(self, position: int) -> None:
        """Moves to a place in the order of its sweep."""
        number, offset = divmod(position, self.sweep_size)
        starts = self.sweep(number)[1]
        self.position = number * self.sweep_size + starts[bisect.bisect_left(starts, offset)]
        if self.rank >= len(self.chunks):
            self.position = self.epoch.end

    def next(self, everyone: int, own: int) -> Selection:
        """Returns the next sequences. Limits do not apply to the first one of this worker."""
        items: list[Item] = []
        end_of_sweep = end_of_epoch = False
        taken = mine = 0
        while True:
            goes_on = end_of_sweep
            part, consumed = self._part(everyone - taken, own - mine, not goes_on)
            end_of_sweep |= part.end_of_sweep
            end_of_epoch |= part.end_of_epoch
            items += part.items
            if goes_on and consumed == 0:
                break
            taken += consumed
            mine += sum(item.length for item in part.items)
            if end_of_epoch or not end_of_sweep or taken >= everyone or mine >= own:
                break
        return Selection(items, end_of_sweep, end_of_epoch)

    def _part(self, everyone: int, own: int, needs_one: bool) -> tuple[Selection, int]:
        """Returns sequences of one sweep, and the number of samples that were passed."""
        if self.position >= self.epoch.end:
            return self._over(), 0
        number, offset = divmod(self.position, self.sweep_size)
        rows, starts = self.sweep(number)
        everyone = min(everyone, self.sweep_size - offset)
        items: list[Item] = []
        taken = mine = 0
        for at in range(bisect.bisect_left(starts, offset), len(rows)):
            home, item = rows[at]
            is_mine = home % self.workers == self.rank
            if not needs_one:
                if taken + item.length > everyone:
                    break
                if is_mine and mine + item.length > own:
                    break
            if self.position + taken >= self.epoch.end:
                break
            if is_mine:
                items.append(item)
                mine += item.length
                needs_one = False
            taken += item.length
        ends_sweep = offset + taken >= self.sweep_size
        ends_epoch = self.position + taken >= self.epoch.end
        self.position += taken
        return Selection(items, ends_sweep, ends_epoch), taken


class InOrder(Timeline):
    """Sequences in the order of the data. Workers divide them by a running number."""

    def seek(self, position: int) -> None:
        """Moves to a sequence. The number that decides on shares starts at its place."""
        offset = position % self.sweep_size
        count = start = 0
        while start < offset:
            start += self.items[count].length
            count += 1
        self.position = position - offset + start
        self.count = count

    def next(self, everyone: int, own: int) -> Selection:
        """Returns the next sequences; stops at an exact fill."""
        if self.position >= self.epoch.end:
            return self._over()
        before = self.position // self.sweep_size
        items: list[Item] = []
        taken = mine = 0
        needs_one = True
        place = self._place()
        while taken < everyone and mine < own:
            item = self.items[place]
            is_mine = self.count % self.workers == self.rank
            if not needs_one and taken + item.length > everyone:
                break
            if not needs_one and is_mine and mine + item.length > own:
                break
            if self.position >= self.epoch.end:
                break
            if is_mine:
                items.append(item)
                mine += item.length
                needs_one = False
            taken += item.length
            self.position += item.length
            self.count += 1
            place = (place + 1) % len(self.items)
        ends_sweep = self.position // self.sweep_size != before
        return Selection(items, ends_sweep, self.position >= self.epoch.end)

    def _place(self) -> int:
        offset, start, place = self.position % self.sweep_size, 0, 0
        while start < offset:
            start += self.items[place].length
            place += 1
        return place % len(self.items)


def own_share(size: int, workers: int, rank: int) -> int:
    """Returns a worker's part of a minibatch size, if each worker reads at its own pace."""
    return max(size // workers + (size % workers > rank), 1)


def read_next(timeline: Timeline, size: int) -> Selection:
    """Returns the next minibatch of a worker that reads at its own pace."""
    return timeline.next(UNLIMITED, own_share(size, timeline.workers, timeline.rank))


def epoch_of(sweep_size: int, samples: int | None, sweeps: int | None) -> Epoch:
    """Returns the epoch of a source's limits; without limits it has no end."""
    if sweeps is not None:
        return Epoch(sweep_size * sweeps)
    return Epoch(ENDLESS if samples is None else samples)
