"""The tasks: digits (a classifier of single samples) and tags (one for each word of a sentence)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from cntk_reader import CTFDeserializer, Minibatch, MinibatchSource, StreamDef, StreamDefs
from torch import nn

#: The tag of steps without a word.
NO_TAG = -100

#: Words and tags of `make_sentences.py`.
WORDS, TAGS = 500, 8


def open_source(data: CTFDeserializer, minibatch_size: int, rank: int, ranks: int) -> MinibatchSource:
    """Opens a source in lockstep: minibatches and states do not depend on the number of ranks."""
    return MinibatchSource(data, minibatch_size=minibatch_size, workers=ranks, rank=rank, lockstep=True)


class Task(Protocol):
    """Data, parameters and model of a task."""

    data: CTFDeserializer
    minibatch_size: int
    learning_rate: float

    def model(self) -> nn.Module:
        """Returns a new model."""
        ...

    def tensors(self, minibatch: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the model's input and the correct classes, for 0 sequences if the minibatch has no data."""
        ...


class Digits(Task):
    """Images of 8 x 8 pixels, and their digits."""

    learning_rate = 0.1

    def __init__(self, folder: Path) -> None:
        streams = StreamDefs(
            features=StreamDef(shape=64),
            labels=StreamDef(shape=10, is_sparse=True),
        )
        # Ranks take whole chunks, so there should be many: 8 KiB of text are about 50 digits.
        self.data = CTFDeserializer(folder / "digits.train.ctf", streams, chunk_size_in_bytes=8 << 10)
        #: In samples of all ranks.
        self.minibatch_size = 32

    def model(self) -> nn.Module:
        """Returns a model with input (samples, 64) and output (samples, 10)."""
        return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))

    def tensors(self, minibatch: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns features (samples, 64) and classes (samples), for 0 samples if the minibatch has no data."""
        if not minibatch:
            return torch.empty(0, 64), torch.empty(0, dtype=torch.int64)
        features = torch.from_numpy(minibatch["features"].array.reshape(-1, 64)) / 16
        return features, torch.from_numpy(minibatch["labels"].indices()).long()


class _Tagger(nn.Module):
    """Predicts a word's tag from the word and its two neighbours, independently of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS + 1, 24, padding_idx=WORDS)
        self.convolution = nn.Conv1d(24, 48, kernel_size=3, padding=1)
        self.output = nn.Linear(48, TAGS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        neighbours = self.convolution(self.embedding(words).transpose(1, 2)).transpose(1, 2)
        tags: torch.Tensor = self.output(torch.relu(neighbours))
        return tags


class Tagger(Task):
    """Sentences of different lengths, with a tag for each word."""

    learning_rate = 0.5

    def __init__(self, folder: Path) -> None:
        streams = StreamDefs(
            words=StreamDef(shape=WORDS, is_sparse=True),
            tags=StreamDef(shape=TAGS, is_sparse=True),
        )
        self.data = CTFDeserializer(folder / "sentences.ctf", streams, chunk_size_in_bytes=8 << 10)
        #: In words of all ranks: about 20 sentences.
        self.minibatch_size = 300

    def model(self) -> nn.Module:
        """Returns a model with input (sentences, longest), padded with `WORDS`, and output (sentences, longest, TAGS)."""
        return _Tagger()

    def tensors(self, minibatch: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns words and tags, both (sentences, longest), for 0 sentences if the minibatch has no data."""
        if not minibatch:
            return torch.empty(0, 1, dtype=torch.int32), torch.empty(0, 1, dtype=torch.int64)
        words, tags = minibatch["words"].padded_indices(WORDS), minibatch["tags"].padded_indices(NO_TAG)
        return torch.from_numpy(words.array), torch.from_numpy(tags.array).long()


TASKS: dict[str, Callable[[Path], Task]] = {"digits": Digits, "tagger": Tagger}
