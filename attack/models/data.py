"""Small text files whose values identify their sequences, and the sources over them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cntk_reader import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs
from harness.case import Case
from harness.trace import Batch, Sequence, dense
from rules import ctf, layout, order

_FLOAT = np.dtype("float32")


@dataclass
class Corpus:
    """A text file with one stream, whose values are the sequence's number and the step."""

    file: str
    chunk_size: int
    keys: list[str]
    lengths: list[int]
    chunks: order.Chunks

    @property
    def samples(self) -> int:
        """The number of samples in a sweep."""
        return sum(self.lengths)

    def sequence(self, number: int) -> Sequence:
        """Returns the samples of a sequence."""
        return [dense([number, step], _FLOAT) for step in range(self.lengths[number])]

    def deserializer(self) -> CTFDeserializer:
        """Returns the file as a deserializer."""
        streams = StreamDefs(x=StreamDef(shape=2))
        return CTFDeserializer(self.file, streams, chunk_size_in_bytes=self.chunk_size)


def make(case: Case, is_frames: bool = False, most: int = 60) -> Corpus:
    """Creates a random corpus: sequences of random lengths, in chunks of a random size."""
    rng = case.rng
    count = rng.randint(1, most)
    longest = 1 if is_frames or rng.random() < 0.3 else rng.choice([2, 5, 12])
    lengths = [rng.randint(1, longest) for _ in range(count)]
    key, keys, lines = rng.randrange(50), [], []
    for number, length in enumerate(lengths):
        keys.append(str(key))
        lines += [b"%d |x %d %d\n" % (key, number, step) for step in range(length)]
        key += rng.randint(1, 3)
    data = b"".join(lines)
    file = case.write("input.ctf", data)
    chunk_size = rng.choice([1, 20, 50, 100, 300, 1000, 1 << 25])
    entries = ctf.chunks(ctf.index(data, None, False), chunk_size)
    chunks = order.make_chunks([[entry.samples for entry in chunk] for chunk in entries])
    case.facts.update(lengths=lengths, chunk_size=chunk_size, chunks=list(map(len, chunks)))
    return Corpus(file, chunk_size, keys, lengths, chunks)


@dataclass
class Order:
    """The order in which a source delivers the data."""

    is_random: bool
    seed: int = 0
    window: order.Window = field(default_factory=lambda: order.Window(128, False))

    @classmethod
    def random(cls, rng: random.Random, samples: int) -> Order:
        """Returns any order and window."""
        if rng.random() < 0.25:
            return cls(False)
        seed = rng.choice([0, 0, 1, 7, rng.randrange(100), 2**33 + 5, 2**64 - 1])
        if rng.random() < 0.5:
            window = order.Window(rng.choice([1, 2, 3, 5, 128, 2**31]), False)
        else:
            window = order.Window(rng.choice([1, 2, samples // 3 + 1, samples, 10**9]), True)
        return cls(True, seed, window)

    def settings(self) -> dict[str, Any]:
        """Returns the arguments for `MinibatchSource`."""
        if not self.is_random:
            return {"randomize": False}
        unit = "samples" if self.window.in_samples else "chunks"
        return {
            # The package's argument has 32 bits, the configuration's key 64.
            "options": {"randomizationSeed": self.seed},
            f"randomization_window_in_{unit}": self.window.size,
        }

    def timeline(self, chunks: order.Chunks, epoch: order.Epoch, workers: int = 1, rank: int = 0) -> order.Timeline:
        """Returns the model of this order."""
        if self.is_random:
            return order.Randomized(chunks, epoch, self.seed, self.window, workers, rank)
        return order.InOrder(chunks, epoch, workers, rank)


@dataclass
class Limits:
    """The limits of a source: sweeps or samples."""

    sweeps: int | None = None
    samples: int | None = None

    @classmethod
    def random(cls, rng: random.Random, samples: int) -> Limits:
        """Returns one to three sweeps, or any number of samples."""
        if rng.random() < 0.6:
            return cls(sweeps=rng.randint(1, 3))
        return cls(samples=rng.randint(1, 3 * samples + 2))

    def settings(self) -> dict[str, Any]:
        """Returns the arguments for `MinibatchSource`."""
        return {"max_sweeps": self.sweeps, "max_samples": self.samples}

    def epoch(self, sweep_size: int) -> order.Epoch:
        """Returns the epoch of the model."""
        return order.epoch_of(sweep_size, self.samples, self.sweeps)


def batch(corpus: Corpus, part: order.Selection, position: int | None, is_frames: bool = False) -> Batch:
    """Returns the minibatch of a selection."""
    if not part.items:
        return Batch([], {}, part.end_of_sweep, part.end_of_epoch, position)
    numbers = [item.number for item in part.items]
    made = Batch(
        [corpus.keys[number] for number in numbers],
        {"x": [corpus.sequence(number) for number in numbers]},
        part.end_of_sweep,
        part.end_of_epoch,
        position,
    )
    return layout.with_layouts(made, is_frames)


def source(corpus: Corpus, *settings: dict[str, Any], **more: Any) -> MinibatchSource:
    """Opens a source over the corpus."""
    merged: dict[str, Any] = {}
    for one in settings:
        merged.update(one)
    return MinibatchSource(corpus.deserializer(), **merged, **more)
