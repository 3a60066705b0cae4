"""Figures about a source: size of its data, progress, and memory use."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """The size of the data. Unknown members are None.

    * ``samples``: samples in a sweep, in the unit of minibatch sizes
    * ``sequences``: sequences in a sweep
    * ``chunks``: the units in which data are loaded and distributed among workers
    """

    samples: int | None
    sequences: int | None
    chunks: int | None


class Member(NamedTuple):
    """One of a source's deserializers.

    * ``name``: its file, or the name of a user's deserializer
    * ``type``: its ``type`` in the configuration
    * ``sizes``: its own :class:`Sizes`
    """

    name: str
    type: str
    sizes: Sizes


class Progress(NamedTuple):
    """The progress of an epoch, in samples of all workers.

    * ``delivered``: samples up to the last minibatch
    * ``expected``: samples of the whole epoch; None: unknown, or without end
    * ``sweep``: the sweep of the next sample, from 0
    """

    delivered: int
    expected: int | None
    sweep: int


class Memory(NamedTuple):
    """The memory that a source holds, in bytes.

    * ``window``: memory of chunks
    * ``buffers``: memory of minibatches
    * ``index``: memory of the tables of chunks, sequences and keys
    """

    window: int
    buffers: int
    index: int  # type: ignore[assignment]
