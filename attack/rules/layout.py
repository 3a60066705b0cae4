"""The layout of minibatches: CNTK 2.7's packing of whole sequences and of frames."""

from __future__ import annotations

from harness.trace import Batch, Layout, Record


def whole(lengths: list[int]) -> Layout:
    """Puts each sequence into the first lane with enough room. Gaps end the lanes."""
    steps = max(lengths)
    used: list[int] = []
    records = []
    for number, length in enumerate(lengths):
        lane = next((at for at, held in enumerate(used) if held + length <= steps), len(used))
        if lane == len(used):
            used.append(0)
        records.append(Record(number, lane, used[lane], used[lane] + length))
        used[lane] += length
    gaps = [Record(None, lane, held, steps) for lane, held in enumerate(used) if held < steps]
    return Layout(steps, len(used), tuple(records + gaps))


def frames(count: int) -> Layout:
    """Gives each sequence of one sample its own lane."""
    return Layout(1, count, tuple(Record(lane, lane, 0, 1) for lane in range(count)))


def with_layouts(batch: Batch, is_frames: bool = False) -> Batch:
    """Adds the layouts of a minibatch of whole sequences or frames."""
    for name, sequences in batch.streams.items():
        lengths = [len(sequence) for sequence in sequences]
        batch.layouts[name] = frames(len(lengths)) if is_frames else whole(lengths)
    return batch
