"""Faults that the self-check injects into a trace. The comparison must detect each of them."""

from __future__ import annotations

import random

import numpy as np

from harness.case import Fault
from harness.trace import Batch, Event, Failure, Sample, first_difference


def _with_data(events: list[Event], least: int = 1) -> list[Batch]:
    batches = [event for event in events if isinstance(event, Batch) and event.streams]
    return [one for one in batches if min(map(len, one.streams.values())) >= least]


def drop_sequence(events: list[Event], rng: random.Random) -> bool:
    """Removes one sequence from all streams of a minibatch."""
    batches = _with_data(events)
    if not batches:
        return False
    batch = rng.choice(batches)
    number = rng.randrange(min(map(len, batch.streams.values())))
    if batch.keys:
        del batch.keys[number]
    for sequences in batch.streams.values():
        del sequences[number]
    return True


def change_value(events: list[Event], rng: random.Random) -> bool:
    """Changes the lowest bit of one value."""
    places = [
        (sequence, step)
        for batch in _with_data(events)
        for sequences in batch.streams.values()
        for sequence in sequences
        for step, sample in enumerate(sequence)
        if len(sample.values)
    ]
    if not places:
        return False
    sequence, step = rng.choice(places)
    values = sequence[step].values.copy()
    place = rng.randrange(len(values)) * values.itemsize
    values.view(np.uint8)[place] ^= 1
    sequence[step] = Sample(values, sequence[step].indices)
    return True


def swap_sequences(events: list[Event], rng: random.Random) -> bool:
    """Swaps two sequences of a minibatch that are not equal."""
    batches = _with_data(events, 2)
    rng.shuffle(batches)
    for batch in batches:
        count = min(map(len, batch.streams.values()))
        one, other = rng.sample(range(count), 2)
        streams = {name: list(sequences) for name, sequences in batch.streams.items()}
        for sequences in streams.values():
            sequences[one], sequences[other] = sequences[other], sequences[one]
        before: list[Event] = [Batch(None, batch.streams)]
        if first_difference(before, [Batch(None, streams)]) is not None:
            batch.streams.update(streams)
            return True
    return False


def change_key(events: list[Event], rng: random.Random) -> bool:
    """Changes one key."""
    batches = [batch for batch in _with_data(events) if batch.keys]
    if not batches:
        return False
    keys = rng.choice(batches).keys
    assert keys
    keys[rng.randrange(len(keys))] += "0"
    return True


def drop_minibatch(events: list[Event], rng: random.Random) -> bool:
    """Removes a minibatch."""
    batches = _with_data(events)
    if not batches:
        return False
    doomed = rng.choice(batches)
    events[:] = [event for event in events if event is not doomed]
    return True


def repeat_minibatch(events: list[Event], rng: random.Random) -> bool:
    """Delivers a minibatch twice."""
    batches = _with_data(events)
    if not batches:
        return False
    again = rng.choice(batches)
    place = next(number for number, event in enumerate(events) if event is again)
    events.insert(place, again)
    return True


def flip_end_of_sweep(events: list[Event], rng: random.Random) -> bool:
    """Negates an end-of-sweep flag."""
    batches = [batch for batch in _with_data(events) if batch.end_of_sweep is not None]
    if not batches:
        return False
    batch = rng.choice(batches)
    batch.end_of_sweep = not batch.end_of_sweep
    return True


def move_error(events: list[Event], rng: random.Random) -> bool:
    """Moves an error a thousand lines further."""
    failures = [event for event in events if isinstance(event, Failure)]
    failures = [failure for failure in failures if isinstance(failure.line, int)]
    if not failures:
        return False
    failure = rng.choice(failures)
    assert isinstance(failure.line, int)
    failure.line += 1000
    return True


def hide_error(events: list[Event], _: random.Random) -> bool:
    """Removes the error."""
    before = len(events)
    events[:] = [event for event in events if not isinstance(event, Failure)]
    return len(events) < before


#: Faults that every kind must detect.
FAULTS: list[Fault] = [
    drop_sequence,
    change_value,
    swap_sequences,
    change_key,
    drop_minibatch,
    repeat_minibatch,
    flip_end_of_sweep,
    move_error,
    hide_error,
]
