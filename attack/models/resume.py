"""A source that is stopped anywhere, saved and restored, compared with one that never stops."""

from __future__ import annotations

import json
from typing import Any

from cntk_reader import MinibatchSource
from harness import reading
from harness.case import Case, Difference
from harness.trace import Batch, Event, first_difference

from models import data
from models.data import Limits, Order


def _take(source: MinibatchSource, count: int) -> list[Event]:
    """Returns the next reads, up to the end."""
    events: list[Event] = []
    for _ in range(count):
        minibatch = source.next_minibatch()
        events.append(reading.batch_of(minibatch, None))
        if not minibatch and minibatch.end_of_epoch:
            break
    return events


def _saved(case: Case, source: MinibatchSource) -> Any:
    """Returns a state in one of its forms, as if it came from a file."""
    if case.rng.random() < 0.5:
        return json.loads(json.dumps(source.state_dict()))
    return source.checkpoint()


def run(case: Case) -> None:
    """Reads one random source with one or more interruptions."""
    rng = case.rng
    is_frames = rng.random() < 0.2
    corpus = data.make(case, is_frames)
    how = Order.random(rng, corpus.samples)
    limits = Limits.random(rng, corpus.samples)
    workers = rng.choice([1, 1, 2, 3])
    rank = rng.randrange(workers)
    size = rng.choice([1, 2, 5, 10, 30, corpus.samples])
    settings: dict[str, Any] = {**how.settings(), **limits.settings(), "frame_mode": is_frames}
    mode = rng.choice(["plain", "truncated", "lockstep", "epochs"])
    if mode == "truncated" and not is_frames:
        settings["truncation_length"] = rng.randint(1, 8)
        size = max(size, settings["truncation_length"] * workers)
    settings["lockstep"] = mode == "lockstep"
    case.facts.update(
        mode=mode, order=str(how), limits=str(limits), workers=workers, rank=rank, size=size,
        settings=str(settings),
    )  # fmt: skip
    share = {"minibatch_size": size, "workers": workers, "rank": rank}
    if mode == "epochs":
        want, got = _epochs(case, corpus, settings, share)
    else:
        want, got = _once(case, corpus, settings, share)
        if mode == "lockstep":
            _other_workers(case, corpus, settings, share)
    words = first_difference(want, case.observed(got))
    if words is not None:
        raise Difference(words)


def _once(
    case: Case, corpus: data.Corpus, settings: dict[str, Any], share: dict[str, Any]
) -> tuple[list[Event], list[Event]]:
    rng = case.rng
    with data.source(corpus, settings, **share) as source:
        want = _take(source, 1000)
    got: list[Event] = []
    stops = sorted(rng.sample(range(1, len(want) + 1), min(rng.randint(1, 3), len(want))))
    case.facts["stops"] = stops
    source = data.source(corpus, settings, **share)
    for stop in stops:
        got += _take(source, stop - len(got))
        state = _saved(case, source)
        # Reads after the state was taken must have no effect.
        _take(source, rng.randint(0, 3))
        if rng.random() < 0.7:
            source.close()
            source = data.source(corpus, settings, **share)
        source.load_state_dict(state)
    got += _take(source, 1000)
    source.close()
    ended = isinstance(want[-1], Batch) and not want[-1].streams
    if ended and stops[-1] == len(want):
        # A state taken at the end restores to the end, which is then read again. If the last share
        # was empty, its flags were those of a step, not those of the end.
        want = [*want, Batch([], {}, None, True)]
    return want, got


def _epochs(
    case: Case, corpus: data.Corpus, settings: dict[str, Any], share: dict[str, Any]
) -> tuple[list[Event], list[Event]]:
    rng = case.rng
    settings = {key: one for key, one in settings.items() if not key.startswith("max_")}
    count = rng.randint(1, 4)
    samples = None if rng.random() < 0.5 else rng.randint(1, 2 * corpus.samples)
    case.facts.update(epochs=count, epoch_samples=samples)
    want: list[Event] = []
    with data.source(corpus, settings, **share) as source:
        for epoch in source.epochs(count, samples=samples):
            want += [reading.batch_of(minibatch, epoch.index) for minibatch in epoch]
    stop = rng.randint(1, max(len(want), 1))
    case.facts["stop"] = stop
    got: list[Event] = []
    source = data.source(corpus, settings, **share)
    state = None
    for epoch in source.epochs(count, samples=samples):
        for minibatch in epoch:
            got.append(reading.batch_of(minibatch, epoch.index))
            if len(got) == stop:
                state = _saved(case, source)
                break
        if state is not None:
            break
    source.close()
    if state is None:
        return want, got
    with data.source(corpus, settings, **share) as source:
        source.load_state_dict(state)
        for epoch in source.epochs(count, samples=samples):
            got += [reading.batch_of(minibatch, epoch.index) for minibatch in epoch]
    return want, got


def _other_workers(case: Case, corpus: data.Corpus, settings: dict[str, Any], share: dict[str, Any]) -> None:
    """In lockstep, other workers continue from the state of rank 0 and share the rest."""
    rng = case.rng
    size = share["minibatch_size"]

    def sources(workers: int) -> list[MinibatchSource]:
        return [
            data.source(corpus, settings, minibatch_size=size, workers=workers, rank=rank) for rank in range(workers)
        ]

    def keys(events: list[Event]) -> list[str]:
        return sorted(key for one in reading.with_data(events) for key in one.keys or [])

    with data.source(corpus, settings, minibatch_size=size) as alone:
        whole = [keys([event]) for event in _take(alone, 1000)]
    stop = rng.randint(1, len(whole))
    first, second = rng.randint(1, 4), rng.randint(1, 4)
    case.facts.update(other_workers=[first, second], other_stop=stop)
    got: list[list[str]] = []
    state = None
    for workers, count in (first, stop), (second, 1000):
        readers = sources(workers)
        if state is not None:
            for reader in readers:
                reader.load_state_dict(state)
        for _ in range(count):
            steps = [reader.next_minibatch() for reader in readers]
            got.append(keys([reading.batch_of(step) for step in steps]))
            case.check(
                len({bool(step.end_of_epoch) for step in steps}) == 1,
                f"step {len(got) - 1}: the workers end their epoch in different steps",
            )
            if steps[0].end_of_epoch:
                break
        state = readers[0].state_dict()
        for reader in readers:
            reader.close()
    # The number of reads at the end may differ; they have no data.
    want = [one for one in whole if one]
    got = [one for one in got if one]
    case.check(want == got, f"the steps of {first} and {second} workers: expected {want}, got {got}")
