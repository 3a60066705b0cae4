"""Truncated minibatches: CNTK 2.7's slots, which queue sequences and are cut into equal steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from harness.trace import Layout, Record

from rules.order import UNLIMITED, Timeline


class Piece(NamedTuple):
    """The part of a sequence in a minibatch."""

    number: int
    begin: int
    end: int


class Cut(NamedTuple):
    """A truncated minibatch. The pieces are in the order of the records without gaps."""

    layout: Layout | None
    pieces: list[Piece]
    end_of_sweep: bool
    end_of_epoch: bool


@dataclass
class _Slot:
    #: Number, length and end-of-sweep flag of each sequence.
    queue: list[tuple[int, int, bool]] = field(default_factory=list)
    cursor: int = 0

    @property
    def available(self) -> int:
        return sum(length for _, length, _ in self.queue) - self.cursor


class Packer:
    """The slots of one worker."""

    def __init__(self, timeline: Timeline, size: int, steps: int, right_splice: int = 0) -> None:
        everyone = max(1, size // steps)
        workers, rank = timeline.workers, timeline.rank
        own = everyone // workers + (rank < everyone % workers)
        self._slots = [_Slot() for _ in range(own)]
        self._timeline = timeline
        self._steps = steps
        self._splice = right_splice

    def read(self) -> Cut:
        """Returns the next minibatch."""
        for slot in self._slots:
            # One sample more than needed, as in CNTK.
            while slot.available <= self._steps:
                part = self._timeline.next(UNLIMITED, 1)
                slot.queue += [(item.number, item.length, part.end_of_sweep) for item in part.items]
                if part.end_of_epoch:
                    break
        if not any(slot.available for slot in self._slots):
            return Cut(None, [], False, True)
        records: list[Record] = []
        pieces: list[Piece] = []
        end_of_sweep = False
        for lane, slot in enumerate(self._slots):
            end_of_sweep |= self._cut(lane, slot, records, pieces)
        layout = Layout(self._steps, len(self._slots), tuple(records))
        is_over = not any(slot.available for slot in self._slots)
        return Cut(layout, pieces, end_of_sweep, is_over)

    def _cut(self, lane: int, slot: _Slot, records: list[Record], pieces: list[Piece]) -> bool:
        """Fills a lane. Returns whether the last sequence of a sweep ended there."""
        count = min(self._steps, slot.available)
        end_of_sweep = is_crossed = False

        def begin(step: int) -> None:
            number, length, _ = slot.queue[0]
            record = Record(len(pieces), lane, step - slot.cursor, step + length - slot.cursor)
            records.append(record)
            pieces.append(Piece(number, slot.cursor, slot.cursor))

        def pop() -> None:
            nonlocal end_of_sweep
            end_of_sweep |= slot.queue.pop(0)[2]
            slot.cursor = 0

        if count:
            begin(0)
        for step in range(count):
            if slot.cursor == slot.queue[0][1]:
                pop()
                begin(step)
                is_crossed = True
            slot.cursor += 1
            pieces[-1] = pieces[-1]._replace(end=slot.cursor)
        if self._splice and not is_crossed and count == self._steps:
            slot.cursor -= self._splice
        if slot.queue and slot.cursor == slot.queue[0][1]:
            pop()
        if count < self._steps:
            records.append(Record(None, lane, count, self._steps))
        return end_of_sweep
