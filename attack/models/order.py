"""Random windows, chunks, seeds, workers and sizes: the order of sequences by `rules.order`."""

from __future__ import annotations

from typing import Any

from cntk_reader import MinibatchSource, set_threads
from harness import reading
from harness.case import Case, Difference
from harness.trace import Event, first_difference
from rules import order

from models import data
from models.data import Corpus, Limits, Order


def _lockstep(corpus: Corpus, how: Order, limits: Limits, size: int, workers: int, rank: int) -> list[Event]:
    """All workers follow the minibatches of a single one, and take the sequences of their
    chunks."""
    timeline = how.timeline(corpus.chunks, limits.epoch(corpus.samples))
    events: list[Event] = []
    count = 0
    while True:
        start = timeline.position
        part = timeline.next(size, size)
        own = []
        for item in part.items:
            if isinstance(timeline, order.Randomized):
                sweep, offset = divmod(start, corpus.samples)
                rows, starts = timeline.sweep(sweep)
                place = rows[starts.index(offset)].home
                assert rows[starts.index(offset)].item == item
            else:
                place = count
            if place % workers == rank:
                own.append(item)
            start += item.length
            count += 1
        share = part._replace(items=own)
        events.append(data.batch(corpus, share, timeline.position))
        if part.end_of_epoch:
            if own:
                share = timeline.next(size, size)
                events.append(data.batch(corpus, share, timeline.position))
            return events


def run(case: Case) -> None:
    """Reads one random source to its end."""
    rng = case.rng
    is_frames = rng.random() < 0.25
    corpus = data.make(case, is_frames)
    how = Order.random(rng, corpus.samples)
    limits = Limits.random(rng, corpus.samples)
    workers = rng.choice([1, 1, 1, 2, 3, 5])
    rank = rng.randrange(workers)
    size = rng.choice([1, 2, 5, 10, 30, corpus.samples, 10**6])
    in_lockstep = rng.random() < 0.25
    has_epochs = not in_lockstep and rng.random() < 0.25
    changes = not in_lockstep and not has_epochs and rng.random() < 0.3
    if changes and not how.is_random:
        # CNTK 2.7: a change in a later sweep restarts the numbering of workers' shares at the start
        # of that sweep. The reader continues the numbering, so that no sequence is lost or
        # repeated.
        limits = Limits(sweeps=1)
    case.facts.update(
        order=str(how), limits=str(limits), workers=workers, rank=rank, size=size,
        lockstep=in_lockstep, frame_mode=is_frames, changes=changes,
    )  # fmt: skip
    settings: dict[str, Any] = {
        **how.settings(),
        **limits.settings(),
        "frame_mode": is_frames,
        "lockstep": in_lockstep,
    }
    # Neither threads nor prefetching changes the order.
    threads, reads_ahead = rng.randint(1, 4), rng.random() < 0.7
    case.facts.update(threads=threads, prefetch=reads_ahead)
    set_threads(threads)
    settings["options"] = {**settings.get("options", {}), "prefetch": reads_ahead}
    with data.source(corpus, settings, minibatch_size=size, workers=workers, rank=rank) as source:
        if has_epochs:
            want, got = _epochs(case, corpus, how, source, (size, workers, rank), is_frames)
        elif changes:
            want, got = _changing(case, corpus, how, limits, source, is_frames)
        else:
            got = reading.read(source)
            if in_lockstep:
                want = _lockstep(corpus, how, limits, size, workers, rank)
            else:
                want = _own_pace(corpus, how, limits, size, workers, rank, is_frames)
    words = first_difference(want, case.observed(got))
    if words is not None:
        raise Difference(words)


def _own_pace(
    corpus: Corpus, how: Order, limits: Limits, size: int, workers: int, rank: int, frames: bool
) -> list[Event]:
    timeline = how.timeline(corpus.chunks, limits.epoch(corpus.samples), workers, rank)
    events: list[Event] = []
    while True:
        part = order.read_next(timeline, size)
        events.append(data.batch(corpus, part, timeline.position, frames))
        if not part.items and part.end_of_epoch:
            return events


def _epochs(
    case: Case,
    corpus: Corpus,
    how: Order,
    source: MinibatchSource,
    share: tuple[int, int, int],
    frames: bool,
) -> tuple[list[Event], list[Event]]:
    """Reads a loop over epochs, which begin at multiples of their size."""
    rng = case.rng
    size, workers, rank = share
    samples = None if rng.random() < 0.4 else rng.randint(1, 2 * corpus.samples)
    start = rng.choice([None, None, 0, rng.randint(1, 4)])
    stop = (start or 0) + rng.randint(1, 3)
    case.facts.update(epoch_samples=samples, start=start, stop=stop)
    want: list[Event] = []
    for number in range(start or 0, stop):
        epoch = order.Epoch(samples or corpus.samples, number)
        timeline = how.timeline(corpus.chunks, epoch, workers, rank)
        while True:
            part = order.read_next(timeline, size)
            if part.items:
                batch = data.batch(corpus, part, timeline.position, frames)
                # Prefix keys with the epoch, so that a minibatch in another epoch is a difference.
                batch.keys = [f"{number}/{key}" for key in batch.keys or []]
                want.append(batch)
            if part.end_of_epoch:
                break
    got: list[Event] = []
    for epoch_read in source.epochs(stop, samples=samples, start=start):
        for minibatch in epoch_read:
            batch = reading.batch_of(minibatch, reading.position_of(source))
            batch.keys = [f"{epoch_read.index}/{key}" for key in batch.keys or []]
            got.append(batch)
    return want, got


def _changing(
    case: Case, corpus: Corpus, how: Order, limits: Limits, source: MinibatchSource, frames: bool
) -> tuple[list[Event], list[Event]]:
    """Changes sizes and workers from read to read. The position stays."""
    rng = case.rng
    timeline: order.Timeline = how.timeline(corpus.chunks, limits.epoch(corpus.samples))
    in_force = None
    want: list[Event] = []
    got: list[Event] = []
    share = (1, 1, 0)
    shares: list[tuple[int, int, int]] = []
    case.facts["shares"] = shares
    for _ in range(200):
        if in_force is None or rng.random() < 0.4:
            workers = rng.choice([1, 1, 2, 3])
            share = (rng.choice([1, 3, 8, 20]), workers, rng.randrange(workers))
        size, workers, rank = share
        shares.append(share)
        if in_force != share:
            timeline.workers, timeline.rank = workers, rank
            timeline.seek(timeline.position)
            in_force = share
        part = order.read_next(timeline, size)
        batch = data.batch(corpus, part, timeline.position, frames)
        if rank >= len(corpus.chunks):
            # A worker without chunks is at the end immediately. That place need not be the end of a
            # sweep, nor the start of a sequence.
            batch.end_of_sweep = batch.position = None
        want.append(batch)
        minibatch = source.next_minibatch(size, workers=workers, rank=rank)
        got.append(reading.batch_of(minibatch, reading.position_of(source)))
        if not minibatch:
            break
    return want, got
