"""Utterances of features and labels, and the minibatches made from them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from cntk_reader import MinibatchSource
from harness import reading
from harness.case import Case, Difference
from harness.trace import Batch, Event, Sequence, dense, first_difference, sparse
from rules import layout, order

from models.data import Limits, Order

Frames = npt.NDArray[np.generic]


@dataclass
class Utterance:
    """An utterance in the files. Labels are None if it has none."""

    key: str
    frames: Frames
    labels: list[int] | None = None


def keys(rng: random.Random, count: int) -> list[str]:
    """Returns distinct keys of utterances."""
    stems = rng.sample(range(10**6), count)
    return [f"{rng.choice(['u', 'sp-1_', 'A/b', 'é', ''])}{stem:03d}" for stem in stems]


def with_context(frames: Frames, context: tuple[int, int]) -> Frames:
    """Returns each frame with its neighbours. The first and last frames of an utterance are
    repeated."""
    rows = []
    for at in range(len(frames)):
        places = range(at - context[0], at + context[1] + 1)
        rows.append(np.concatenate([frames[min(max(p, 0), len(frames) - 1)] for p in places]))
    return np.array(rows, frames.dtype)


@dataclass
class Setting:
    """The settings of a source of utterances."""

    context: tuple[int, int]
    precision: str
    frame_mode: bool
    classes: int
    has_labels: bool
    ids: str | None

    @classmethod
    def random(cls, rng: random.Random) -> Setting:
        """Returns any setting."""
        context = (0, 0) if rng.random() < 0.5 else (rng.randint(0, 3), rng.randint(0, 3))
        has_labels = rng.random() < 0.7
        ids = rng.choice([None, None, "int32", "int64"]) if has_labels else None
        precision = rng.choice(["float", "float", "double"])
        return cls(context, precision, rng.random() < 0.4, rng.randint(1, 12), has_labels, ids)


def _streams(one: Utterance, setting: Setting) -> dict[str, Sequence]:
    dtype = np.dtype("float64" if setting.precision == "double" else "float32")
    rows = with_context(one.frames, setting.context)
    made = {"features": [dense(row, dtype) for row in rows.astype(dtype)]}
    if setting.has_labels:
        labels = one.labels or []
        if setting.ids is None:
            made["labels"] = [sparse([label], [1], dtype) for label in labels]
        else:
            made["labels"] = [dense([label], setting.ids) for label in labels]
    return made


def compare(case: Case, utterances: list[Utterance], setting: Setting, deserializers: list[Any]) -> None:
    """Reads the deserializers, and compares with the utterances that have all streams."""
    rng = case.rng
    complete = [one for one in utterances if one.labels is not None or not setting.has_labels]
    sequences: list[tuple[str, dict[str, Sequence]]] = []
    for one in complete:
        streams = _streams(one, setting)
        if setting.frame_mode:
            for at in range(len(one.frames)):
                frame = {name: [samples[at]] for name, samples in streams.items()}
                sequences.append((one.key, frame))
        else:
            sequences.append((one.key, streams))
    lengths = [len(streams["features"]) for _, streams in sequences]
    total = sum(lengths)
    how, limits = Order.random(rng, total), Limits(sweeps=rng.randint(1, 2))
    size = rng.choice([1, 4, 16, 64, 10**6])
    case.facts.update(setting=str(setting), order=str(how), limits=str(limits), size=size)
    timeline = how.timeline(order.make_chunks([lengths]), limits.epoch(total))
    want: list[Event] = []
    while True:
        part = order.read_next(timeline, size)
        numbers = [item.number for item in part.items]
        batch = Batch(
            [sequences[number][0] for number in numbers],
            {name: [list(sequences[number][1][name]) for number in numbers] for name in sequences[0][1]}
            if numbers
            else {},
            part.end_of_sweep,
            part.end_of_epoch,
            timeline.position,
        )
        want.append(layout.with_layouts(batch, setting.frame_mode) if numbers else batch)
        if setting.ids is not None and not setting.frame_mode:
            # Class indices of whole sequences are contiguous in one lane.
            batch.layouts.pop("labels", None)
        if not numbers:
            break
    with MinibatchSource(
        deserializers,
        precision=setting.precision,
        frame_mode=setting.frame_mode,
        minibatch_size=size,
        **how.settings(),
        **limits.settings(),
    ) as source:
        got = reading.read(source)
    words = first_difference(want, case.observed(got))
    if words is not None:
        raise Difference(words)
