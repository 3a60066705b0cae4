"""Loops over sources with a given minibatch size."""

from __future__ import annotations

from collections.abc import Iterator

from cntk_reader import Epoch, Minibatch, MinibatchSource


def minibatches_of(
    source: MinibatchSource, size: int | None = None, workers: int = 1, rank: int = 0
) -> Iterator[Minibatch]:
    """Returns the minibatches up to the source's limits."""
    if workers > 1:
        source.workers, source.rank = workers, rank
    if size is not None:
        source.minibatch_size = size
    return iter(source)


def next_epoch(
    source: MinibatchSource, size: int | None = None, *, samples: int | None = None, index: int | None = None
) -> Epoch:
    """Returns the next epoch, or the one with an index."""
    if size is not None:
        source.minibatch_size = size
    return next(source.epochs(samples=samples, start=index))
